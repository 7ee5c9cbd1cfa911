fn differences(x: [N, T]) -> y: [N, T] where T >= 2:
    y[n, t] = x[n, t + 1] - x[n, t]
