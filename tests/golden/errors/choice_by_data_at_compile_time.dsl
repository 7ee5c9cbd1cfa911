layer gated(x: [N, K], gate: []) -> y: [N, K]:
    if gate > 0:
        y = relu(x)
    else:
        y = x
