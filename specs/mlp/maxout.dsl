# Maxout units: the largest of several linear maps (chapter 5).

layer maxout(x: [..., I], out: size, pieces = 3) -> y: [..., O = out]:
    param W: [K = pieces, I, O] ~ glorot
    param b: [K, O] ~ zeros
    y[..., o] = max[k](x[..., i] * W[k, i, o] + b[k, o])

model maxout_network(x: f32[N, 64], hidden = 64, classes = 10) -> logits: [N, classes]:
    h = x |> maxout(hidden) |> dropout(0.2)
    h = h |> maxout(hidden, pieces = 4) |> dropout(0.2)
    logits = h |> dense(classes)

train maxout_network(x, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(maxout_network(x), label)
    using adamw(lr = 1e-3)
