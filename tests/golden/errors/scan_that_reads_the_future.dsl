layer lookahead(x: [N, T, K]) -> h: [N, T, K]:
    scan t:
        h[n, t, k] = x[n, t, k] + 0.5 * h[n, t+1, k]
    start h = 0
