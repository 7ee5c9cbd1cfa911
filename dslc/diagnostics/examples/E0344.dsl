layer head(x: [N, 64]) -> y: [N, 10]:
    y = dense(x, 12)
