fn block(x: [N, I]) -> y: [N, 8]:
    param W: [I, 8] ~ glorot
    state seen: [] = 0
    y[n, o] = x[n, i] * W[i, o]
