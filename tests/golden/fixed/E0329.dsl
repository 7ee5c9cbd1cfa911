fn shares(x: [N], w: [K]) -> y: [N]:
    y[n] = sum[k](x[n] / w[k])
