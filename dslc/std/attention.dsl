# Attention over tokens x[n, t, e], and the transformer blocks made of it.
# Heads are an axis of their own: h is the head, d runs over the width of one head.

# Multi-head self-attention; causal: a token attends to itself and to those before it.
layer attention(x: [N, T, E], heads = 8, causal = true) -> y: [N, T, E] where E % heads == 0:
    param Wq, Wk, Wv: [E, H = heads, D = E / heads] ~ glorot
    param Wo: [H, D, E] ~ glorot
    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]
    k[n, h, s, d] = x[n, s, e] * Wk[e, h, d]
    v[n, h, s, d] = x[n, s, e] * Wv[e, h, d]
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t or not causal else -inf)
    y[n, t, e] = a[n, h, t, s] * v[n, h, s, d] * Wo[h, d, e]

# Queries from x, keys and values from z.
layer cross_attention(x: [N, T, E], z: [N, S, F], heads = 8) -> y: [N, T, E] where E % heads == 0:
    param Wq: [E, H = heads, D = E / heads] ~ glorot
    param Wk, Wv: [F, H, D] ~ glorot
    param Wo: [H, D, E] ~ glorot
    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]
    k[n, h, s, d] = z[n, s, f] * Wk[f, h, d]
    v[n, h, s, d] = z[n, s, f] * Wv[f, h, d]
    a[n, h, t, s] = softmax[s](q[n, h, t, d] * k[n, h, s, d] / sqrt(D))
    y[n, t, e] = a[n, h, t, s] * v[n, h, s, d] * Wo[h, d, e]

# Queries from x, keys and values from z, where keep[n, t, s] says which s token t may see.
layer masked_attention(
    x: [N, T, E], z: [N, S, F], keep: bool[N, T, S], heads = 8
) -> y: [N, T, E] where E % heads == 0:
    param Wq: [E, H = heads, D = E / heads] ~ glorot
    param Wk, Wv: [F, H, D] ~ glorot
    param Wo: [H, D, E] ~ glorot
    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]
    k[n, h, s, d] = z[n, s, f] * Wk[f, h, d]
    v[n, h, s, d] = z[n, s, f] * Wv[f, h, d]
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if keep[n, t, s] else -inf)
    y[n, t, e] = a[n, h, t, s] * v[n, h, s, d] * Wo[h, d, e]

# Many heads of queries that share one head of keys and values.
layer multi_query_attention(
    x: [N, T, E], heads = 8, causal = true
) -> y: [N, T, E] where E % heads == 0:
    param Wq: [E, H = heads, D = E / heads] ~ glorot
    param Wk, Wv: [E, D] ~ glorot
    param Wo: [H, D, E] ~ glorot
    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]
    k[n, s, d] = x[n, s, e] * Wk[e, d]
    v[n, s, d] = x[n, s, e] * Wv[e, d]
    score[n, h, t, s] = q[n, h, t, d] * k[n, s, d] / sqrt(D)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t or not causal else -inf)
    y[n, t, e] = a[n, h, t, s] * v[n, s, d] * Wo[h, d, e]

# Heads of queries in groups g of r heads; each group shares its keys and values.
layer grouped_query_attention(
    x: [N, T, E], heads = 8, groups = 2, causal = true
) -> y: [N, T, E] where E % heads == 0, heads % groups == 0:
    param Wq: [E, G = groups, R = heads / groups, D = E / heads] ~ glorot
    param Wk, Wv: [E, G, D] ~ glorot
    param Wo: [G, R, D, E] ~ glorot
    q[n, g, r, t, d] = x[n, t, e] * Wq[e, g, r, d]
    k[n, g, s, d] = x[n, s, e] * Wk[e, g, d]
    v[n, g, s, d] = x[n, s, e] * Wv[e, g, d]
    score[n, g, r, t, s] = q[n, g, r, t, d] * k[n, g, s, d] / sqrt(D)
    a[n, g, r, t, s] = softmax[s](score[n, g, r, t, s] if s <= t or not causal else -inf)
    y[n, t, e] = a[n, g, r, t, s] * v[n, g, s, d] * Wo[g, r, d, e]

# Causal attention whose scores fall with distance, at a fixed rate for each head (ALiBi).
layer alibi_attention(x: [N, T, E], heads = 8) -> y: [N, T, E] where E % heads == 0:
    param Wq, Wk, Wv: [E, H = heads, D = E / heads] ~ glorot
    param Wo: [H, D, E] ~ glorot
    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]
    k[n, h, s, d] = x[n, s, e] * Wk[e, h, d]
    v[n, h, s, d] = x[n, s, e] * Wv[e, h, d]
    rate[h: heads] = exp2(-8.0 * (h + 1) / heads)
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D) - rate[h] * (t - s)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t else -inf)
    y[n, t, e] = a[n, h, t, s] * v[n, h, s, d] * Wo[h, d, e]

# Attention with rotary positions: scores depend on the distance t - s only.
layer rotary_attention(
    x: [N, T, E], heads = 8, causal = true
) -> y: [N, T, E] where E % (2 * heads) == 0:
    param Wq, Wk, Wv: [E, H = heads, D = E / heads] ~ glorot
    param Wo: [H, D, E] ~ glorot
    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]
    k[n, h, s, d] = x[n, s, e] * Wk[e, h, d]
    v[n, h, s, d] = x[n, s, e] * Wv[e, h, d]
    q = rope(q)
    k = rope(k)
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t or not causal else -inf)
    y[n, t, e] = a[n, h, t, s] * v[n, h, s, d] * Wo[h, d, e]

# Rotates each pair of neighbouring channels by an angle proportional to the position t.
fn rope(x: [..., T, D], base = 10000.0) -> y: [..., T, D] where D % 2 == 0:
    angle[t: T, d: D / 2] = t * base^(-2.0 * d / D)
    u[..., t, d: D / 2] = x[..., t, 2*d]
    v[..., t, d: D / 2] = x[..., t, 2*d + 1]
    y[..., t, (d r)] = concat[r](
        u[..., t, d] * cos(angle[t, d]) - v[..., t, d] * sin(angle[t, d]),
        u[..., t, d] * sin(angle[t, d]) + v[..., t, d] * cos(angle[t, d]),
    )

# Fixed positions: sines and cosines, interleaved, of frequencies from 1 down to 1 / base.
fn sinusoidal_positions(
    count: size, width: size, base = 10000.0
) -> s: [T = count, E = width] where width % 2 == 0:
    angle[t: T, d: E / 2] = t * base^(-2.0 * d / E)
    s[t, (d r)] = sin(angle[t, d]) if r == 0 else cos(angle[t, d]) where r = 2

# Two dense layers applied to each token.
layer feed_forward(x: [..., E], hidden: size, act = gelu) -> y: [..., E]:
    y = x |> dense(hidden) |> act |> dense(E)

# The gated form of feed_forward, without biases.
layer gated_feed_forward(x: [..., E], hidden: size) -> y: [..., E]:
    y = x |> swiglu(hidden) |> dense(E, bias = false)

# Pre-normalised transformer block: attention, then two dense layers, each around a skip.
layer transformer_block(
    x: [N, T, E], heads = 8, causal = true, expand = 4
) -> y: [N, T, E] where E % heads == 0:
    h = x + (x |> layer_norm |> attention(heads, causal))
    y = h + (h |> layer_norm |> feed_forward(expand * E))

# Post-normalised transformer block, as first published: normalise after each skip.
layer post_norm_block(
    x: [N, T, E], heads = 8, causal = true, expand = 4
) -> y: [N, T, E] where E % heads == 0:
    h = layer_norm(x + attention(x, heads, causal))
    y = layer_norm(h + feed_forward(h, expand * E))

# Attention and the dense layers side by side on one normalised input.
layer parallel_block(
    x: [N, T, E], heads = 8, causal = true, expand = 4
) -> y: [N, T, E] where E % heads == 0:
    u = layer_norm(x)
    y = x + attention(u, heads, causal) + feed_forward(u, expand * E)

# Decoder block: causal self-attention, attention to the encoder's tokens z, dense layers.
layer decoder_block(
    x: [N, T, E], z: [N, S, F], heads = 8, expand = 4
) -> y: [N, T, E] where E % heads == 0:
    h = x + (x |> layer_norm |> attention(heads, causal = true))
    h = h + (h |> layer_norm |> cross_attention(z, heads))
    y = h + (h |> layer_norm |> feed_forward(expand * E))
