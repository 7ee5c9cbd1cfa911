layer noisy(x: [N, K], spread: [K]) -> y: [N, K]:
    y[n, :] = x[n, :] + normal[n](0, spread)
