model regression(x: f32[N, 4]) -> y: [N, 2]:
    y = dense(x, 2)

train regression(x, target: f32[N, 3]):
    minimize mean_squared_error(regression(x), target)
    using sgd(lr = 0.1)
