layer linear(x: [N, 784]) -> y: [N, 10]:
    param W: [10, 784] ~ glorot
    y[n, o] = x[n, i] * W[i, o]
