fn centred(x: [N, K]) -> y: [N, K]:
    m[n] = mean[k](x[n, k])
    y[i, j] = x[i, j] - m[i]
