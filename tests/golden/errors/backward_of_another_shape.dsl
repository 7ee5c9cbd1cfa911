fn rows(x: [N, K]) -> y: [N]:
    y[n] = sum[k](x[n, k])
    backward (dy) -> dx:
        dx = dy
