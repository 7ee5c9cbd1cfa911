# A net that can learn wrong labels by heart, with dropout (section 9.3.1), or trained on mixed pairs (section 9.2.3).

model noisy(x: f32[N, 64], hidden = 128, drop = 0.0, classes = 10) -> logits: [N, classes]:
    h = x |> dense(hidden) |> relu |> dropout(drop)
    h = h |> dense(hidden) |> relu |> dropout(drop)
    logits = h |> dense(classes)

train noisy(x, label: i32[N] < classes, mix = false, batch = 32, epochs = 100):
    logits = noisy(x)
    if mix:
        share[n: N] = uniform[n]()
        hot[n, k] = one_hot[k: classes](label[n])
        hot_mixed = mixup(hot, share)
        minimize soft_cross_entropy(noisy(mixup(x, share)), hot_mixed)
    else:
        minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 1e-3)
