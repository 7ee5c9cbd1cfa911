fn halves(x: [N, K]) -> y: [N, K]:
    h = tanh(x)
    y = 0.5 * h + 0.5
