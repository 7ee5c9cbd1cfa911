layer cell(x: [N, T, K]) -> y: [N, K]:
    scan t:
        z[n, k, t] = x[n, t, k] + 0.5 * h[n, t-1, k]
        h[n, t, k] = tanh(z[n, k, t])
    start h = 0
    y[n, k] = z[n, k, T-1] + h[n, T-1, k]
