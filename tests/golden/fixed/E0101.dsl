layer linear(x: [N, I], out: size) -> y: [N, O = out]:
    param W: [I, O] ~ glorot
    y[n, o] = x[n, i] * W[i, o]
