layer cell(x: [N, T, K], h0: [K]) -> h: [N, T, K]:
    scan t:
        h[n, t, k] = 0.9 * h[n, t-1, k] + x[n, t, k]
    start h = h0
