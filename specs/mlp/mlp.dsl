# A classifier with two hidden layers, for images of 8 by 8 pixels in one row (chapter 5).

model mlp(x: f32[N, 64], hidden = 128, classes = 10) -> logits: [N, classes]:
    h = x |> dense(hidden) |> gelu
    h = h |> dense(hidden) |> gelu
    logits = h |> dense(classes)

train mlp(x, label: i32[N] < classes, batch = 64, epochs = 20):
    logits = mlp(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 1e-3)
