layer block(x: [N, K]) -> y: [N, K]:
    h = dense(x, K)
    y = h + relu(h)
