layer shares(x: [N, K]) -> y: [N]:
    z = 1 / x[n, k]
    y[n] = sum[k](z[n, k])
