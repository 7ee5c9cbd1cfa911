fn probabilities(x: [N, K]) -> p: [N, K]:
    p[n, k] = softmax[k](x[n, k])
