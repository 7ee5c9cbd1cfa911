# A decoder-only language model: learnt positions, pre-normalised blocks, tied output layer.

model gpt(
    token: i32[N, T] < vocabulary,
    vocabulary = 256,
    context = 128,
    width = 256,
    depth = 4,
    heads = 8,
) -> logits: [N, T, vocabulary] where T <= context, width % heads == 0:
    param position: [context, width] ~ normal(0.02)
    use embed = embedding(vocabulary, width)
    e = embed(token)
    h[n, :, :] = e[n, :, :] + position[0:T, :]
    for l in 0..depth:
        h = h |> transformer_block(heads, causal = true)
    h = layer_norm(h)
    logits[n, t, v] = h[n, t, c] * embed.W[v, c]

train gpt(token, target: i32[N, T] < vocabulary):
    minimize cross_entropy(gpt(token), target)
    using adamw(lr = 1e-3)
