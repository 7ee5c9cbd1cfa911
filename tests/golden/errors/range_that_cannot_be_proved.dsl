fn delayed(x: [N, T], lag: int) -> y: [N, S = 16]:
    y[n, s] = x[n, s + lag]
