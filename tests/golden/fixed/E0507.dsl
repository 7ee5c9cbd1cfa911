fn best(x: [N, K]) -> y: [N, 3] where K >= 3:
    y[n, j], b[n, j] = top_k[k -> j: 3](x[n, k])
