fn diagonal(d: [K]) -> y: [K, K]:
    y[i, j] = d[i] if i == j else 0
