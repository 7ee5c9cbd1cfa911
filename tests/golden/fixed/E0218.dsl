layer block(x: [N, K]) -> y: [N, K]:
    y = x + dense(x, K)
