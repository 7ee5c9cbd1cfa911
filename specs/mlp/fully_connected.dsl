# Layers put one behind the other are a layer, which goes into others in its turn (chapter 5). Units before and after
# their activation can be looked at by name.

layer fully_connected(x: [..., I], out: size, act: fn) -> y: [..., O = out]:
    param W: [I, O] ~ normal
    param b: [O] ~ normal
    score[..., o] = x[..., i] * W[i, o] + b[o]
    y[..., o] = act(score[..., o])

layer two(x: [..., I], hidden: size, out: size) -> y: [..., out]:
    y = x |> fully_connected(hidden, relu) |> fully_connected(out, tanh)

model fully_connected_network(x: f32[N, 3]) -> y: [N, 4]:
    h = two(x, 5, 4)
    dead = dead_units(h)
    expose h, dead
    y = dense(h, 4)

train fully_connected_network(x, target: f32[N, 4]):
    minimize mean_squared_error(fully_connected_network(x), target)
    using sgd(lr = 0.05)
