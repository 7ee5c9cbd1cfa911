fn f(x: [N, K]) -> y: [N, 4]:
    use d = dense(4)
    y = d(x)

layer g(x: [N, K]) -> y: [N, K]:
    slot v = 0
    using sgd(lr = 0.1)
    y = x + v

optimizer o(lr = 0.1):
    state m: [] = 0
    m <- 0.9 * m + grad
    param <- param - lr * m
