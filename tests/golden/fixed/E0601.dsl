layer lookahead(x: [N, T]) -> h: [N, T]:
    scan t reversed:
        h[n, t] = x[n, t] + 0.5 * h[n, t+1]
    start h = 0
