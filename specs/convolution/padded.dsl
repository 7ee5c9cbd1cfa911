# Sequences of unequal lengths in one batch, padded with zeros (chapter 8). The mask stands between
# the convolutions too, so that no result depends on how long the padding is.

model padded(
    x: f32[N, T, 4], length: i32[N] < 100000, width = 16, classes = 3
) -> logits: [N, classes]:
    keep = within(length, T)
    h = masked(x, keep) |> conv1d(width, pad = 1) |> relu
    h = masked(h, keep) |> conv1d(width, pad = 1) |> relu
    logits = masked_mean(h, keep) |> dense(classes)

train padded(x, length, label: i32[N] < classes, batch = 16, epochs = 20):
    logits = padded(x, length)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adam(lr = 1e-2)
