# A language model of stacked LSTM layers with dropout between them (chapter 13).

model lstm_language(
    token: i32[N, T] < vocabulary, vocabulary = 65, width = 64, depth = 2
) -> logits: [N, T, vocabulary]:
    h = token |> embedding(vocabulary, width)
    for l in 0..depth:
        h = h |> dropout(0.1) |> lstm(width)
    logits = h |> dense(vocabulary)

train lstm_language(token, batch = 16, epochs = 5) where T >= 2:
    logits = lstm_language(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    using clipped_adamw(lr = 2e-3, clip = 0.5)
