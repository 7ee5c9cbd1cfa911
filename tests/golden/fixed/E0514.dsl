fn limited(x: [N]) -> y: [N]:
    y[n] = clip(x[n], 0, 1)
