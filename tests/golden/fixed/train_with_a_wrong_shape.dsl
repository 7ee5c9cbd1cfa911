model regression(x: f32[N, 4]) -> y: [N, 1]:
    y = dense(x, 1)

train regression(x, target: f32[N]):
    minimize mean_squared_error(regression(x)[:, 0], target)
    using sgd(lr = 0.1)
