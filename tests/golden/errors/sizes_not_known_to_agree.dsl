fn overlap(a: [N, K], b: [N, M]) -> y: [N]:
    y[n] = a[n, i] * b[n, i]
