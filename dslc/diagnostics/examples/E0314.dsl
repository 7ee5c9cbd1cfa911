fn bent(x: [N, K]) -> y: [N, K]:
    y = relu(x[n, k])
