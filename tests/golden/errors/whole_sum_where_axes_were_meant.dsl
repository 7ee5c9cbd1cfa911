layer linear(x: [N, I]) -> y: [N, 4]:
    param W: [I, 4] ~ glorot
    y = x[n, i] * W[i, o]
