# The lengths of the gradients of the first and the last layer of a deep network, reported while it is trained
# (section 6.4.3): with sigmoids the first layer hardly learns.

model gradient_norms(
    x: f32[N, 64], hidden = 32, depth = 6, classes = 10, act = sigmoid
) -> logits: [N, classes]:
    use first = dense(hidden)
    use last = dense(classes)
    h = act(first(x))
    for l in 0..depth:
        h = h |> dense(hidden) |> act
    logits = last(h)

train gradient_norms(x, label: i32[N] < classes, batch = 64, epochs = 5):
    loss = cross_entropy(gradient_norms(x), label)
    d_first = grad(loss, gradient_norms.first.W)
    d_last = grad(loss, gradient_norms.last.W)
    minimize loss
    metric first_norm = norm[i, k](d_first[i, k])
    metric last_norm = norm[i, k](d_last[i, k])
    using sgd(lr = 0.1)
