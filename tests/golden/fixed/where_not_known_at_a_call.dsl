layer mixed(x: [N, T, E]) -> y: [N, T, E] where E % 4 == 0:
    y = x + attention(x, heads = 4)
