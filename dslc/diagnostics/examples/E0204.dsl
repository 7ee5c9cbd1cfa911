fn scaled(x: [N, K], n: int) -> y: [N, K]:
    y[n, k] = x[n, k] * n
