fn trace(x: [N, N]) -> y: []:
    y = sum[k, k](x[k, k])
