fn bent(x: [N, K]) -> y: [N, K]:
    y[n, k] = relu(x[n, k])
