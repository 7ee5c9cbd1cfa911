layer linear(x: [N, 784]) -> y: [N, 10]:
    param W: [784, 10] ~ glorot
    y[n, o] = x[n, i] * W[i, o]
