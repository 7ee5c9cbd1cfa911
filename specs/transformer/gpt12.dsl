# The language model of gpt.dsl with twelve layers of width 768 (chapter 11).
# Activations inside a block are recomputed in the backward pass instead of being kept.

layer recomputed_stack(x: [N, T, E], depth: int, heads: int) -> y: [N, T, E] where E % heads == 0:
    h = x
    for l in 0..depth:
        checkpoint:
            h = h |> transformer_block(heads, causal = true)
    y = layer_norm(h)

model gpt12(
    token: i32[N, T] < vocabulary,
    vocabulary = 50257,
    context = 1024,
    width = 768,
    depth = 12,
    heads = 12,
) -> logits: [N, T, vocabulary] where T <= context, width % heads == 0:
    param position: [context, width] ~ normal(0.02)
    use embed = embedding(vocabulary, width)
    e = embed(token)
    place = position[0:T, :]
    h[n, t, c] = e[n, t, c] + place[t, c]
    h = h |> recomputed_stack(depth, heads)
    logits[n, t, v] = h[n, t, c] * embed.W[v, c]

train gpt12(token, batch = 8, epochs = 1) where T >= 2:
    logits = gpt12(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    using clipped_adamw(lr = 6e-4 * min(1, step / 2000), beta2 = 0.95, weight_decay = 0.1)
