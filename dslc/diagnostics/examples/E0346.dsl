layer cell(x: [N, T, K]) -> y: [N, K]:
    use next = dense(K)
    scan t:
        z[n, :] = next(h[n, t-1, :])
        h[n, t, k] = tanh(x[n, t, k] + z[n, k])
    start h = 0
    y[n, k] = h[n, T-1, k]
