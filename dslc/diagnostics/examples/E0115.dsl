fn halves(x: [N, K]) -> y: [N, K]:
    h = tanh(x)
    y = .5 * h + .5
