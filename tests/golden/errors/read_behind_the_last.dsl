fn final(x: [N, T]) -> y: [N]:
    y[n] = x[n, T]
