fn centred(x: [N, K]) -> y: [N, K]:
    m[n] = mean[k](x[n, k])
    y = x - m
