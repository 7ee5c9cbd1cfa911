# A series forecast by a causal convolutional model (chapter 8), trained on all positions of a window at
# once, on the true past alone. ahead.dsl goes on from there with the same weights.

layer causal_net(x: [N, T, C], width = 16, depth = 3) -> y: [N, T, C]:
    y = x |> causal_stack(width, depth = depth, act = tanh) |> dense(C)

model forecast(x: f32[N, T, 1]) -> y: [N, T, 1]:
    use net = causal_net
    y = net(x)

train forecast(x, batch = 32, epochs = 40) where T >= 2:
    y = forecast(x)
    minimize mean_squared_error(y[:, 0:T-1, :], x[:, 1:T, :])
    using adam(lr = 1e-2)
