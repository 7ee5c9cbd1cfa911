fn groups(x: [N, 8]) -> y: [N, 2, 4]:
    y[n, p, a] = x[n, (p a)] where a = 4
