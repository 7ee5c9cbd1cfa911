fn last(x: [N, T]) -> y: [N]:
    y[n] = x[n, T - 1]
