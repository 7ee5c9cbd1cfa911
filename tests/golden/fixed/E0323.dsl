fn steps(x: [N, T]) -> y: [N, T - 1] where T >= 2:
    y[n, t] = x[n, t + 1]
