fn rows(x: [N, K]) -> y: [N]:
    y[n] = sum[k](x[n, k]) where N = 4
