fn pairs(x: [N, T]) -> y: [N, T - 1] where T >= 2:
    y[n, t] = max[2](x[n, t])
