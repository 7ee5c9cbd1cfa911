# Exclusive or: no linear model separates these four points, a small hidden layer does (chapter 5).

model xor(x: f32[N, 2], hidden = 8) -> logit: [N]:
    param W: [2, hidden] ~ normal
    param b: [hidden] ~ zeros
    param v: [hidden] ~ normal
    param c: [] = 0
    h[n, k] = tanh(x[n, i] * W[i, k] + b[k])
    logit[n] = h[n, k] * v[k] + c

train xor(x, target: binary f32[N], batch = 4, epochs = 500):
    logit = xor(x)
    minimize binary_cross_entropy(logit, target)
    metric accuracy = binary_accuracy(logit, target)
    using adam(lr = 0.05)
