# Activations learnt as piecewise linear functions, one for each unit (chapter 5).
# The slopes change at fixed knots; sorting keeps trained knots in order in the second layer.

layer piecewise(x: [N, C], pieces = 5) -> y: [N, C]:
    param a: [C, K = pieces] ~ zeros
    frozen param knot[k]: [K] = -1.0 + 2.0 * (k + 1) / (pieces + 1)
    y[n, c] = relu(x[n, c]) + sum[k](a[c, k] * relu(knot[k] - x[n, c]))

layer trained_piecewise(x: [N, C], pieces = 5) -> y: [N, C]:
    param a: [C, K = pieces] ~ zeros
    param position: [C, K] ~ uniform(-1, 1)
    knot[c, k] = sort[k](position[c, k])
    y[n, c] = relu(x[n, c]) + sum[k](a[c, k] * relu(knot[c, k] - x[n, c]))

model basis_activation(x: f32[N, 64], hidden = 64, classes = 10) -> logits: [N, classes]:
    logits = x |> dense(hidden) |> piecewise |> dense(hidden) |> trained_piecewise |> dense(classes)

train basis_activation(x, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(basis_activation(x), label)
    using adamw(lr = 1e-3)
