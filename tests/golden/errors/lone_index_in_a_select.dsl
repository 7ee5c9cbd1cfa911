fn rectified_sum(x: [N, K]) -> y: [N]:
    y[n] = x[n, k] if x[n, k] > 0 else 0
