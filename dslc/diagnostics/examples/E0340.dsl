layer smoothed(x: [N, T]) -> y: [N, T]:
    scan t in 1..T reversed:
        y[n, t] = 0.9 * y[n, t+1] + 0.1 * x[n, t]
    start y = 0
