fn running(x: [N, T, K]) -> y: [N, T, K]:
    y[n, t, k] = cumsum[t](x[n, t, k])
