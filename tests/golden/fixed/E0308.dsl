fn last(x: [N, T]) -> y: [N]:
    y[n] = x[n, wrap(-1)]
