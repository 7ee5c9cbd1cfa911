layer patches(x: [N, 28, C]) -> y: [N, 4, 8, C]:
    y[n, p, a, c] = x[n, (p a), c] where p = 4, a = 8
