fn limited(x: [N]) -> y: [N]:
    y[n] = clamp(x[n], 0, 1)
