layer back(x: [N, T]) -> h: [N, T]:
    scan t reversed:
        h[n, t] = 0.9 * h[n, t-1] + x[n, t]
    start h = 0
