model regression(x: f32[N, 4]) -> y: [N]:
    y = dense(x, 1)[:, 0]

train regression(x, target: f32[N]):
    minimize mean_squared_error(regression(x), target)
    using adam(lr = 1e-3)
