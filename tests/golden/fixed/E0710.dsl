model network(x: f32[N, 4]) -> y: [N, 1]:
    y = x |> dense(8) |> relu |> dense(1)

train network(x, target: f32[N, 1]):
    minimize mean_squared_error(network(x), target)
    freeze dense2.b
    using sgd(lr = 0.1)
