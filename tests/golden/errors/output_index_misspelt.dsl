fn scaled(x: [N, K], g: [K]) -> y: [N, K]:
    y[n, k] = x[n, j] * g[j]
