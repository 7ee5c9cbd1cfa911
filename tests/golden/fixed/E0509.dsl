fn limited(x: [N]) -> y: [N]:
    y[n] = clip(x[n], -1, 1)
