layer mixed(x: [N, T, E]) -> y: [N, T, E]:
    y = x + attention(x, heads = 4)
