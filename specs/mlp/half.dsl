# Low precision: values are stored in half the bits and computed in single precision (chapter 6).

model half(x: bf16[N, 64], hidden = 256, classes = 10) -> logits: f32[N, classes]:
    h = x |> dense(hidden) |> relu
    h = bf16(h)
    h = h |> dense(hidden) |> relu
    h = f16(clip(f32(h), -1000, 1000))
    logits = h |> f32 |> dense(classes)

train half(x, label: i64[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(half(x), i32(label))
    using adamw(lr = 1e-3)
