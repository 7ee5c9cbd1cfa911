# Ridge regression by steps down the gradient, on all rows at once.

model ridge(x: f64[N, features], features = 10) -> y: [N]:
    param w: [features] ~ zeros
    param b: [] = 0
    y[n] = x[n, i] * w[i] + b

train ridge(x, target: f64[N], strength = 1.0, batch = 100000, epochs = 3000):
    minimize (sum((ridge(x) - target)^2) + strength * l2(ridge.w)) / N
    using momentum(lr = 0.1, decay = 0.9)
