layer shifted(x: [N, K]) -> y: [N, K]:
    y[n, k] = x[n, k] + bias[k]
