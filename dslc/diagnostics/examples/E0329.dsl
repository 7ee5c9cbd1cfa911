fn shares(x: [N], w: [K]) -> y: [N]:
    y[n] = x[n] / w[k]
