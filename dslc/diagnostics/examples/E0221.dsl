layer scaled(x: [N, K]) -> y: [N, K]:
    param g: [K] ~ orthogonal
    y[n, k] = x[n, k] * g[k]
