# A language model of causal convolutions, which gives the next token at each position (chapter 8).
# continued_text.dsl writes with its weights.

layer causal_text(
    token: i32[N, T] < vocabulary, vocabulary: size, width = 32, depth = 4
) -> logits: [N, T, vocabulary]:
    h = token |> embedding(vocabulary, width) |> causal_stack(width, depth = depth, act = gelu)
    logits = h |> dense(vocabulary)

model text(token: i32[N, T] < vocabulary, vocabulary = 64) -> logits: [N, T, vocabulary]:
    use net = causal_text(vocabulary = vocabulary)
    logits = net(token)

train text(token, batch = 16, epochs = 10) where T >= 2:
    logits = text(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    metric bits = -mean(log_probability(logits, token)) / (T - 1) / log(2)
    using adam(lr = 3e-3)
