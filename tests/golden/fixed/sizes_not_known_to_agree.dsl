fn overlap(a: [N, K], b: [N, M]) -> y: [N] where K == M:
    y[n] = a[n, i] * b[n, i]
