fn probabilities(x: [N, K]) -> p: [N, K]:
    p = softmax(x)
