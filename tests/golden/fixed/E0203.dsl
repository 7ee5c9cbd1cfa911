layer clipped(x: [N, K]) -> y: [N, K]:
    c = clip(x, -1, 1)
    y = dense(c, K)
