fn totals(x: [N, K]) -> y: [N, K]:
    y[n, k] = sum[j](x[n, j])
