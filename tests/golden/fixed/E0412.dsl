layer noisy(x: [N, K], spread: [K]) -> y: [N, K]:
    y[n, k] = x[n, k] + normal[n](0, spread[k])
