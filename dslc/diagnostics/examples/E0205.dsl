fn mean(x: [N, K]) -> m: [K]:
    m[k] = sum[n](x[n, k]) / N
