model classifier(x: f32[N, 16]) -> logits: [N, 10]:
    logits = dense(x, 10)

train classifier(x, label: f32[N]):
    minimize cross_entropy(classifier(x), label)
    using adamw(lr = 1e-3)
