layer repeated(x: [N, K]) -> y: [N, K]:
    y[n, k: 5] = x[n, 0]
