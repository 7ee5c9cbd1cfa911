layer clipped(x: [N, K]) -> y: [N, K]:
    x = clip(x, -1, 1)
    y = dense(x, K)
