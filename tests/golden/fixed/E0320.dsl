fn pooled(x: [N, T]) -> y: [N, T // 2] where T >= 2:
    y[n, p] = max[a: 2](x[n, 2*p + a])
