layer block(x: [N, K]) -> y: [N, K]:
    y[n, k] = (x[n, k] + 1]
