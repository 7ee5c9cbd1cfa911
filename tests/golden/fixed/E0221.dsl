layer scaled(x: [N, K]) -> y: [N, K]:
    param g: [K] ~ normal(0.02)
    y[n, k] = x[n, k] * g[k]
