fn pooled(x: [N, 8]) -> y: [N, 4]:
    y[n, p] = max[a](x[n, 2*p + a]) where a = 2
