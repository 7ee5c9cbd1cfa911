layer halves(x: [N, K]) -> y: [N, K / 2.0]:
    y[n, k: 0.5 * K] = x[n, 0]
