layer smoothed(x: [N, T]) -> y: [N, T - 1] where T >= 2:
    scan t in 0..T-1:
        y[n, t] = 0.9 * y[n, t-1] + 0.1 * x[n, t+1]
    start y = 0
