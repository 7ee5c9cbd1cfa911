# A gated recurrent classifier that reads an image of 8 by 8 pixels row by row (chapter 13).

model gru_classifier(x: f32[N, 64], hidden = 64, classes = 10) -> logits: [N, classes]:
    row[n, t, i] = x[n, (t i)] where t = 8, i = 8
    h = gru(row, hidden)
    logits = dense(h[:, 7, :], classes)

train gru_classifier(x, label: i32[N] < classes, batch = 64, epochs = 20):
    logits = gru_classifier(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using clipped_adamw(lr = 2e-3, clip = 1.0)
