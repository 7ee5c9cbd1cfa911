layer cell(x: [N, K], state: [N, K]) -> y: [N, K]:
    y = tanh(x + state)
