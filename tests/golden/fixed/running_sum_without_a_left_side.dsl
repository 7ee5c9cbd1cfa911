fn totals(x: [N, K]) -> y: [N, K]:
    y[n, k] = cumsum[k](x[n, k])
