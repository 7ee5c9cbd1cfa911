fn decayed(x: [N, T], lambda: float) -> y: [N, T]:
    w[t: T] = exp(-lambda * t)
    y[n, t] = x[n, t] * w[t]
