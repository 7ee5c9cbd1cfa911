fn upper(x: [K]) -> y: [K, K]:
    y[i: K, j: K] = x[i * j]
