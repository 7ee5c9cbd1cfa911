fn scaled(x: [N, K], s: [N, 1]) -> y: [N, K]:
    y[i, j] = x[i, j] * s[i, 0]
