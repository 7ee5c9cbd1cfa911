# An encoder of text as BERT has it: learnt positions, post-normalised blocks, each token sees all.

model bert(
    token: i32[N, T] < vocabulary,
    vocabulary = 30522,
    context = 64,
    width = 768,
    depth = 6,
    heads = 12,
) -> h: [N, T, width] where T <= context, width % heads == 0:
    param position: [context, width] ~ normal(0.02)
    e = token |> embedding(vocabulary, width)
    h[n, :, :] = e[n, :, :] + position[0:T, :]
    h = layer_norm(h)
    for l in 0..depth:
        h = h |> post_norm_block(heads, causal = false)
