fn powers(x: [N]) -> y: [N]:
    scan s:
        p[s, n] = p[s-1, n] * x[n]
    start p = 1
    y[n] = p[3, n]
