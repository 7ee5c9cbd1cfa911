fn padded(x: [N, T]) -> y: [N]:
    y[n] = max[t]((x[n, t - 1] else 0))
