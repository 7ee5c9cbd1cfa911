fn powers(x: [N, T]) -> y: [N, T]:
    scan t:
        scan s:
            p[s, n] = p[s-1, n] * x[n, t]
        start p = 1
        y[n, t] = p[3, n]
