model line(x: f32[N, 3]) -> y: [N]:
    param w: [3] ~ ones
    y[n] = x[n, i] * w[i]

train line(x, target: f32[N]):
    y = line(x)
    minimize mean((y - target)^2)
    metric loss = mean(abs(y - target))
    using sgd(lr = 0.1)
