fn totals(x: [N, K]) -> y: [N, K]:
    y[n, k: K] = sum[j](x[n, j])
