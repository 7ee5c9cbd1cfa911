model regression(x: f32[N, 4]) -> y: [N, 1]:
    y = dense(x, 1)
    minimize mean(y^2)
