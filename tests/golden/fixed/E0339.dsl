fn best(x: [N, K]) -> y: [N, 5] where K >= 5:
    y[n, j], place[n, j] = top_k[k -> j: 5](x[n, k])
