fn masked(x: [N, K]) -> y: [N, K]:
    y[n, k] = x[n, k] * (1 if x[n, k] > 0 else 0)
