fn kept(x: [N, K], mask: [N, K]) -> y: [N, K]:
    y[n, k] = x[n, k] if mask[n, k] != 0 else 0
