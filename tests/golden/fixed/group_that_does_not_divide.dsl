fn pairs(x: [N, T]) -> y: [N, T // 2, 2] where T >= 2, T % 2 == 0:
    y[n, p, a] = x[n, (p a)] where a = 2
