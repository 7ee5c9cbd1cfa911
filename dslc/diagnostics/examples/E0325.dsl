layer paired(x: [N, K], y: [N, K]) -> z: [N, K]:
    param W: [..., K] ~ ones
    z[n, k] = x[n, k] * W[n, k] + y[n, k]
