# Encoder and decoder for sequence to sequence tasks, such as translation (chapter 11).
# Sources have different lengths; tokens past the length of their source are never looked at.

layer encoder_block(
    x: [N, S, E], keep: bool[N, S, S], heads: int
) -> y: [N, S, E] where E % heads == 0:
    u = layer_norm(x)
    h = x + masked_attention(u, u, keep, heads)
    y = h + (h |> layer_norm |> feed_forward(4 * E))

layer masked_decoder_block(
    x: [N, T, E], z: [N, S, E], keep: bool[N, T, S], heads: int
) -> y: [N, T, E] where E % heads == 0:
    h = x + (x |> layer_norm |> attention(heads, causal = true))
    h = h + (h |> layer_norm |> masked_attention(z, keep, heads))
    y = h + (h |> layer_norm |> feed_forward(4 * E))

model encoder_decoder(
    source: i32[N, S] < vocabulary,
    length: i32[N] < S + 1,
    target: i32[N, T] < vocabulary,
    vocabulary = 100,
    width = 64,
    depth = 2,
    heads = 4,
) -> logits: [N, T, vocabulary] where width % heads == 0, width % 2 == 0:
    use embed = embedding(vocabulary, width)
    place = sinusoidal_positions(S, width)
    z = embed(source)
    z[n, s, e] = z[n, s, e] + place[s, e]
    to_source[n, i: S, s: S] = s < length[n]
    for l in 0..depth:
        z = encoder_block(z, to_source, heads)
    z = layer_norm(z)
    place = sinusoidal_positions(T, width)
    h = embed(target)
    h[n, t, e] = h[n, t, e] + place[t, e]
    from_target[n, t: T, s: S] = s < length[n]
    for l in 0..depth:
        h = masked_decoder_block(h, z, from_target, heads)
    logits = h |> layer_norm |> dense(vocabulary)

# Token 0 pads the targets and does not count in the loss.
train encoder_decoder(source, length, target, batch = 32, epochs = 10) where T >= 2:
    logits = encoder_decoder(source, length, target)
    log_p[n, t, v] = log_softmax[v](logits[n, t, v])
    log_p = log_p[:, 0:T-1, :]
    wanted = target[:, 1:T]
    cost[n, t] = -log_p[n, t, wanted[n, t]] if wanted[n, t] != 0 else 0
    count = sum[n, t](1.0 if wanted[n, t] != 0 else 0.0)
    minimize sum(cost) / max(count, 1)
    using adam(lr = 1e-3)
