# Causal linear attention: a positive feature map in place of the exponential, so that sums over
# the past can be carried along (chapter 13). Two forms of one layer, with equal results.

fn feature(x) = elu(x) + 1

# All positions at once, by cumulative sums.
layer linear_attention_cumsum(x: [N, T, E], width: size) -> y: [N, T, E]:
    param Wq, Wk: [E, D = width] ~ glorot
    param Wv: [E, V = E] ~ glorot
    q[n, t, d] = feature(x[n, t, e] * Wq[e, d])
    k[n, t, d] = feature(x[n, t, e] * Wk[e, d])
    v[n, t, f] = x[n, t, e] * Wv[e, f]
    S[n, t, d, f] = cumsum[t](k[n, t, d] * v[n, t, f])
    z[n, t, d] = cumsum[t](k[n, t, d])
    weight[n, t] = q[n, t, d] * z[n, t, d]
    y[n, t, f] = q[n, t, d] * S[n, t, d, f] / weight[n, t]

# One position after another, by a recurrence.
layer linear_attention_scan(x: [N, T, E], width: size) -> y: [N, T, E]:
    param Wq, Wk: [E, D = width] ~ glorot
    param Wv: [E, V = E] ~ glorot
    q[n, t, d] = feature(x[n, t, e] * Wq[e, d])
    k[n, t, d] = feature(x[n, t, e] * Wk[e, d])
    v[n, t, f] = x[n, t, e] * Wv[e, f]
    scan t:
        S[n, t, d, f] = S[n, t-1, d, f] + k[n, t, d] * v[n, t, f]
        z[n, t, d] = z[n, t-1, d] + k[n, t, d]
        weight[n] = q[n, t, d] * z[n, t, d]
        y[n, t, f] = q[n, t, d] * S[n, t, d, f] / weight[n]
    start S = 0
    start z = 0

model linear_attention(
    token: i32[N, T] < vocabulary, vocabulary = 65, width = 64, depth = 2, form = "cumsum"
) -> logits: [N, T, vocabulary]:
    h = token |> embedding(vocabulary, width)
    for l in 0..depth:
        u = layer_norm(h)
        if form == "cumsum":
            h = h + linear_attention_cumsum(u, 16)
        else:
            h = h + linear_attention_scan(u, 16)
        h = h + (h |> layer_norm |> feed_forward(4 * width))
    logits = h |> layer_norm |> dense(vocabulary)

train linear_attention(token, batch = 16, epochs = 5) where T >= 2:
    logits = linear_attention(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    using adamw(lr = 1e-3)
