layer smoothed(x: [N, T], steps: size) -> y: [N]:
    scan t in 0..steps:
        h[n, t] = 0.9 * h[n, t-1] + 0.1 * x[n, t]
    start h = 0
    y[n] = h[n, steps-1]
