fn bent(x) -> y:
    use d = dense(4)
    y = d(x)

layer block(x: [N, K]) -> y: [N, K]:
    slot v = 0
    using sgd(lr = 0.1)
    y = x
