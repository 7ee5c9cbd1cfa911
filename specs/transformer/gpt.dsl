# A decoder-only language model: each token predicts the next one (chapter 11).
# Positions are learnt; the output layer shares its matrix with the embedding.

# Causal blocks one after another, and a last normalisation.
layer decoder_stack(x: [N, T, E], depth: int, heads: int) -> y: [N, T, E] where E % heads == 0:
    h = x
    for l in 0..depth:
        h = h |> transformer_block(heads, causal = true)
    y = layer_norm(h)

model gpt(
    token: i32[N, T] < vocabulary,
    vocabulary = 65,
    context = 64,
    width = 64,
    depth = 4,
    heads = 4,
    tied = true,
) -> logits: [N, T, vocabulary] where T <= context, width % heads == 0:
    param position: [context, width] ~ normal(0.02)
    use embed = embedding(vocabulary, width)
    e = embed(token)
    h[n, :, :] = e[n, :, :] + position[0:T, :]
    h = h |> decoder_stack(depth, heads)
    if tied:
        logits[n, t, v] = h[n, t, c] * embed.W[v, c]
    else:
        logits = h |> dense(vocabulary, bias = false)

train gpt(token, batch = 16, epochs = 5) where T >= 2:
    logits = gpt(token)
    loss = cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    minimize loss
    metric perplexity = exp(loss)
    using adamw(lr = 1e-3 * min(1, step / 100))
