fn scaled(x: [N, K], s: [N, 1]) -> y: [N, K]:
    y = x * s
