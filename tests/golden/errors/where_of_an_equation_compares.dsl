fn patches(x: [N, T]) -> y: [N, T / 4, 4] where T % 4 == 0:
    y[n, p, a] = x[n, (p a)] where a == 4
