layer smoothed(x: [N, T]) -> h: [N, T]:
    scan t:
        h[n, t] = 0.9 * h[n, t-1] + 0.1 * x[n, t]
    start h = 0
