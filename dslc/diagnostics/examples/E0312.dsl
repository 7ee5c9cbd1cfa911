fn diagonal(d: [K]) -> y: [K, K]:
    y[i, i] = d[i]
