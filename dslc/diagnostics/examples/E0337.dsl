fn transposed(x: [N, K]) -> y: [K, N]:
    y[k] = x[n, k]
