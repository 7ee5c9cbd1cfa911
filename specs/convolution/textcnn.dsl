# A text classifier: embedded tokens, two convolutions along the text, a mean over it (chapter 8).

model textcnn(
    token: i32[N, T] < vocabulary, vocabulary = 1000, width = 32, classes = 10
) -> logits: [N, classes] where T >= 2:
    h = token |> embedding(vocabulary, width)
    h = h |> conv1d(32, kernel = 5, pad = 2) |> relu |> max_pool1d(2)
    h = h |> conv1d(64, kernel = 5, pad = 2) |> relu
    mean_h[n, c] = mean[t](h[n, t, c])
    logits = mean_h |> dense(classes)

train textcnn(token, label: i32[N] < classes, batch = 32, epochs = 10):
    logits = textcnn(token)
    minimize cross_entropy(logits, label)
    metric top3 = top_accuracy(logits, label, best = 3)
    using adamw(lr = 1e-3)
