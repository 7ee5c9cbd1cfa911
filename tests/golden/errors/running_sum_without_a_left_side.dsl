fn totals(x: [N, K]) -> y: [N, K]:
    y = cumsum[k](x[n, k])
