# Kolmogorov-Arnold network: a trained function on every edge, a sum at every node (chapter 5).
# Each function is a linear map plus a combination of bumps on a fixed grid.

fn bump(x) = exp(-x^2)

layer kan_layer(x: [N, J], out: size, knots = 8) -> y: [N, I = out] where knots >= 2:
    param A: [I, J, K = knots] ~ normal(0.1)
    param W: [I, J] ~ glorot
    frozen param centre[k]: [K] = -2 + 4.0 * k / (knots - 1)
    basis[n, j, k] = bump((x[n, j] - centre[k]) * (knots - 1) / 4)
    curved = einsum("ijk,njk->ni", A, basis)
    straight[n, i] = W[i, j] * x[n, j]
    y = curved + straight

model kan(x: f32[N, 64], hidden = 16, classes = 10) -> logits: [N, classes]:
    logits = x |> kan_layer(hidden) |> layer_norm |> kan_layer(classes)

train kan(x, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(kan(x), label)
    using adamw(lr = 3e-3)
