fn padded(x: [N, T]) -> y: [N]:
    y[n] = max[t: T]((x[n, t - 1] else 0))
