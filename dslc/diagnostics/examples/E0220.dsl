layer linear(x: [N, I], out: size) -> y: [N, O = out]:
    param W: [I, O] ~ xavier
    y[n, o] = x[n, i] * W[i, o]
