fn best(x: [N, 3]) -> y: [N, 5]:
    y[n, j], place[n, j] = top_k[k -> j: 5](x[n, k])
