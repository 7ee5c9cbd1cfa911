model regression(x: f32[N, 4]) -> y: [N]:
    y = dense(x, 1)[:, 0]

train regression(x, target: f32[N]):
    y[n] = mean[i](x[n, i])
    minimize mean_squared_error(y, target)
    using sgd(lr = 0.1)
