fn rows(x: [N, K]) -> y: [N]:
    y[n] = sum[t, k](x[n, t, k])
