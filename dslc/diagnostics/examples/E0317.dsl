layer windows(x: [N, T]) -> y: [N, T - 2] where T >= 3, T < 3:
    y[n, t] = x[n, t + 1]
