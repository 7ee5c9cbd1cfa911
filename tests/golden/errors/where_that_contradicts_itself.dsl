layer windows(x: [N, T], kernel = 3) -> y: [N, T - kernel + 1] where T >= kernel, kernel > T:
    y[n, t] = x[n, t]
