model regression(x: f32[N, 4]) -> y: [N]:
    y = dense(x, 1)[:, 0]

train regresion(x, target: f32[N]):
    minimize mean_squared_error(regresion(x), target)
    using sgd(lr = 0.1)
