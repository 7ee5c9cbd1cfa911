layer windows(x: [N, 4], kernel = 5) -> y: [N, 4 - kernel]:
    y[n, t] = x[n, t]
