layer block(x: [N, K]) y: [N, K]:
    y = relu(x)
