# A classifier of images of 28 by 28 pixels in one row, with two hidden layers.

model mlp(
    x: f32[N, inputs], inputs = 784, hidden = 512, second = 256, classes = 10
) -> logits: [N, classes]:
    h = x |> dense(hidden) |> gelu
    h = h |> dense(second) |> gelu
    logits = h |> dense(classes)

train mlp(x, label: i32[N] < classes):
    minimize cross_entropy(mlp(x), label)
    using adam(lr = 1e-3)
