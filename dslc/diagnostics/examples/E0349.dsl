fn gated(x: [N, I], W: [I, O], V: [I, O]) -> y: [N, O]:
    y[n, o] = x[n, i] * W[i, o] * sigmoid(x[n, i] * V[i, o])
