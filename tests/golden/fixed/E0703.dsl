model regression(x: f32[N, 4]) -> y: [N]:
    y = dense(x, 1)[:, 0]

train regression(x, target: f32[N]):
    y = regression(x)
    minimize mean_squared_error(y, target) + 1e-4 * l2(regression.dense.W)
    using sgd(lr = 0.1)
