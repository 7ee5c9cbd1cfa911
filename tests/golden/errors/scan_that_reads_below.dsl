layer cell(x: [N, T, K]) -> h: [N, T, K]:
    scan t:
        h[n, t, k] = tanh(x[n, t, k] + g[n, t, k])
        g[n, t, k] = sigmoid(h[n, t-1, k])
    start h = 0
