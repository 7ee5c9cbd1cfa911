fn limited(x: [N]) -> y: [N]:
    y[n] = clip(x[n], low = -1, high = 1)
