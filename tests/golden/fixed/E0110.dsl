layer cell(x: [N, K], state_: [N, K]) -> y: [N, K]:
    y = tanh(x + state_)
