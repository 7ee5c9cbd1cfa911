fn grid(x: [N, P]) -> y: [N] where P % 8 == 0:
    y[n] = max[h, w: 8](x[n, (h w)])
