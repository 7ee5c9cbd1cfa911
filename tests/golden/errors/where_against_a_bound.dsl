fn pooled(x: [N, 8]) -> y: [N, 4]:
    y[n, p] = max[a: 2](x[n, 2*p + a]) where a = 3
