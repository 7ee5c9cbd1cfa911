fn scaled(x: [n, k]) -> y: [n, k]:
    y[n, k] = 2 * x[n, k]
