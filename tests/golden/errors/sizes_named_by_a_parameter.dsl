layer projected(x: [N, I], width = 32) -> y: [N, 64]:
    param W: [I, D = 2 * width + 1] ~ glorot
    y[n, d] = x[n, i] * W[i, d]
