layer cell(x: [N, T, K]) -> h: [N, T, K]:
    scan t:
        h[n, t, k] = x[n, t, k] + mean(h)
    start h = 0
