fn following(x: [N, T]) -> y:
    y[n, t] = x[n, t + 1] - x[n, T - 2 - t]
