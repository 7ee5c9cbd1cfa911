# Labels for every word of a text, read from both ends (chapter 13).

model bidirectional_tagger(
    token: i32[N, T] < vocabulary, vocabulary = 100, width = 32, tags = 8
) -> logits: [N, T, tags]:
    h = token |> embedding(vocabulary, width)
    h = h |> bidirectional_rnn(width)
    h = h |> bidirectional(light_gru(hidden = width))
    logits = h |> dense(tags)

train bidirectional_tagger(token, tag: i32[N, T] < tags, batch = 16, epochs = 10):
    minimize cross_entropy(bidirectional_tagger(token), tag)
    using adam(lr = 2e-3)
