layer mapped(x: [N, I], D = 8) -> y: [N, I]:
    param W: [I, D = 2 * I] ~ glorot
    y[n, i] = x[n, j] * W[j, d] * W[i, d]
