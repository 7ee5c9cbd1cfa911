# A language model with rotary positions, gated dense layers, root-mean-square norms and no
# biases (chapter 11).

layer llama_block(
    x: [N, T, E], heads: int, hidden: size
) -> y: [N, T, E] where E % (2 * heads) == 0:
    h = x + (x |> rms_norm |> rotary_attention(heads))
    y = h + (h |> rms_norm |> gated_feed_forward(hidden))

model llama(
    token: i32[N, T] < vocabulary, vocabulary = 256, width = 64, hidden = 192, depth = 4, heads = 4
) -> logits: [N, T, vocabulary] where width % (2 * heads) == 0:
    h = token |> embedding(vocabulary, width)
    for l in 0..depth:
        h = h |> llama_block(heads, hidden)
    logits = h |> rms_norm |> dense(vocabulary, bias = false)

train llama(token, batch = 16, epochs = 5) where T >= 2:
    logits = llama(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    using clipped_adamw(lr = 1e-3, weight_decay = 0.1, clip = 1.0)
