fn grid(x: [N, P]) -> y: [N]:
    y[n] = max[h, w](x[n, (h w)])
