# Dropout that stays on at inference: the spread of several draws measures doubt (chapter 9).

layer always_dropout(x: [...], p = 0.3) -> y: [...]:
    y[...] = x[...] * bernoulli[...](1 - p) / (1 - p)

model mc_dropout(x: f32[N, 2], hidden = 32, draws = 10) -> (mean_y: [N], deviation: [N]):
    copies[r: draws, n, i] = x[n, i]
    h = copies |> always_dropout |> dense(hidden) |> relu |> always_dropout |> dense(1)
    mean_y[n] = mean[r](h[r, n, 0])
    deviation[n] = std[r](h[r, n, 0])

train mc_dropout(x, target: f32[N], batch = 32, epochs = 100):
    y, deviation = mc_dropout(x)
    minimize mean_squared_error(y, target)
    metric doubt = mean(deviation)
    using adam(lr = 1e-2)
