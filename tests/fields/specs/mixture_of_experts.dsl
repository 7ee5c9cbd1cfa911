# A language model with rotary grouped-query attention, RMS norms and a mixture of gated experts, two of them a token.
layer experts(x: [N, T, E], count = 4, hidden = 6) -> (y: [N, T, E], balance: []):
    param router: [E, count] ~ glorot
    param W1, W3: [count, E, hidden] ~ glorot
    param W2: [count, hidden, E] ~ glorot
    p[n, t, k] = softmax[k](x[n, t, e] * router[e, k])
    value[n, t, j], place[n, t, j] = top_k[k -> j: 2](p[n, t, k])
    gate[n, t, j] = value[n, t, j] / sum[j](value[n, t, j])
    a[n, t, j, h] = x[n, t, e] * W1[place[n, t, j], e, h]
    b[n, t, j, h] = x[n, t, e] * W3[place[n, t, j], e, h]
    y[n, t, e] = gate[n, t, j] * silu(a[n, t, j, h]) * b[n, t, j, h] * W2[place[n, t, j], h, e]
    used[k: count] = mean[n, t](1 if place[n, t, 0] == k else 0)
    balance = count * sum[k](used[k] * mean[n, t](p[n, t, k]))

model moe(
    token: i32[N, T] < vocabulary, vocabulary = 11, width = 8, depth = 2
) -> (logits: [N, T, vocabulary], balance: []):
    use embed = embedding(vocabulary, width)
    h = embed(token)
    balance = 0
    for l in 0..depth:
        h = h + (h |> rms_norm |> grouped_query_attention(heads = 4, groups = 2))
        m, b = experts(rms_norm(h))
        h = h + m
        balance = balance + b / depth
    h = rms_norm(h)
    logits[n, t, v] = h[n, t, e] * embed.W[v, e]

train moe(token) where T >= 2:
    logits, balance = moe(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T]) + 0.01 * balance
    using adamw(lr = 1e-3)
