layer block(x: [N, K]) -> x: [N, K]:
    x = relu(x)
