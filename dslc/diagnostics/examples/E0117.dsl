layer noise_free(x: [N, K]) -> y: [N, K]:
    param g: [K] = 1e400
    y[n, k] = x[n, k] * g[k]
