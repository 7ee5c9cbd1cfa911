optimizer descent(lr = 0.01):
    slot v = 0
    v = 0.9 * v - lr * grad
    param = param + v
