fn distance(x: [N, K], y: [N, K]) -> d: [N]:
    d[n] = sqrt(sum[k]((x[n, k] - y[n, k])^2))
