layer heads_of(x: [N, T, E], heads = 12) -> y: [N, T, heads, D = E / heads]:
    y[n, t, h, d] = x[n, t, (h d)] where h = heads
