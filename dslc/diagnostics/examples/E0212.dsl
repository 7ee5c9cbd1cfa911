layer shifted(x: [N, K], offset = 0.5) -> y: [N, K]:
    y[n, k] = x[n, k] + offset[k]
