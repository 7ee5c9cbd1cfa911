fn following(x: [N, 3]) -> y:
    y[n, t] = x[n, t + 5]
