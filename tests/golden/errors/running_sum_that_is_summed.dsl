fn totals(x: [N, K]) -> y: [N]:
    y[n] = cumsum[k](x[n, k])
