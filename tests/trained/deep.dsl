# A net of many narrow layers, with or without a skip around each (section 9.4).

layer step(x: [N, K]) -> y: [N, K]:
    y = x |> layer_norm |> dense(K) |> relu

model deep(
    x: f32[N, 64], width = 32, depth = 50, skip = true, classes = 10
) -> logits: [N, classes]:
    h = x |> dense(width)
    if skip:
        h = h |> repeated(residual(step), depth)
    else:
        h = h |> repeated(step, depth)
    logits = h |> layer_norm |> dense(classes)

train deep(x, label: i32[N] < classes, batch = 64, epochs = 10):
    logits = deep(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 1e-3)
