model classifier(x: f32[N, 16]) -> logits: [N, 10]:
    logits = dense(x, 10)

train classifier(x, label: i32[N, 2]):
    first = label[:, 0]
    minimize cross_entropy(classifier(x), first)
    using adamw(lr = 1e-3)
