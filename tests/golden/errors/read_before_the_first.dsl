fn shifted(x: [N, T]) -> y: [N, T]:
    y[n, t] = x[n, t - 1]
