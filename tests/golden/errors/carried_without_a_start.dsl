layer lstm_cell(x: [N, T, K]) -> h: [N, T, K]:
    scan t:
        c[n, t, k] = 0.9 * c[n, t-1, k] + x[n, t, k]
        h[n, t, k] = tanh(c[n, t, k]) * h[n, t-1, k]
    start h = 1
