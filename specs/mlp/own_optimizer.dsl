# An optimiser of one's own, gradient descent with a sign-dependent step per entry, and an
# activation from this folder (chapters 2, 5). Steps grow while the gradient keeps its sign.

from "swish_custom_vjp.dsl" import trained_swish, swish_units as units

optimizer rprop(start_rate = 1e-3, grow = 1.2, shrink = 0.5, least = 1e-6, most = 0.1):
    slot before = 0, rate = start_rate
    same = before * grad
    factor = grow if same > 0 else shrink if same < 0 else 1.0
    rate <- clip(rate * factor, least, most)
    before <- 0.0 if same < 0 else grad
    param <- param - sign(before) * rate

model own_optimizer(x: f32[N, 64], hidden = 64, classes = 10) -> logits: [N, classes]:
    logits = x |> dense(hidden) |> units |> dense(classes)

train own_optimizer(x, label: i32[N] < classes, batch = 1024, epochs = 100):
    minimize cross_entropy(own_optimizer(x), label)
    using rprop
