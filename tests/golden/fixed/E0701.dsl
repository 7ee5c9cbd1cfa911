model regression(x: f32[N, 4]) -> y: [N]:
    y = dense(x, 1)[:, 0]

train regression(x, target: f32[N]):
    minimize mean((regression(x) - target)^2)
    using sgd(lr = 0.1)
