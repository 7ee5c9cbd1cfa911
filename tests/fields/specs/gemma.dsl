layer gqa(
    x: [N, T, E], heads: int, groups: int, head: int, window: int
) -> y: [N, T, E] where heads % groups == 0, head % 2 == 0:
    param Wq: [E, G = groups, R = heads / groups, D = head] ~ glorot
    param Wk, Wv: [E, G, D] ~ glorot
    param Wo: [G, R, D, E] ~ glorot
    k[n, g, s, d] = x[n, s, e] * Wk[e, g, d]
    q[n, g, r, t, d] = x[n, t, e] * Wq[e, g, r, d]
    v[n, g, s, d] = x[n, s, e] * Wv[e, g, d]
    kr = rope(k)
    qr = rope(q)
    raw[n, g, r, t, s] = qr[n, g, r, t, d] * kr[n, g, s, d] / sqrt(head)
    score[n, g, r, t, s] = 20 * tanh(raw[n, g, r, t, s] / 20)
    a[n, g, r, t, s] = softmax[s](
        score[n, g, r, t, s] if s <= t and (window == 0 or t - s < window) else -inf
    )
    o[n, g, r, t, d] = a[n, g, r, t, s] * v[n, g, s, d]
    y[n, t, e] = o[n, g, r, t, d] * Wo[g, r, d, e]

model gemma(token: i32[N, T] < vocab, vocab = 11, width = 4, depth = 2) -> logits: [N, T, vocab]:
    use embed = embedding(vocab, width)
    h = embed(token) * sqrt(width)
    for l in 0..depth:
        h = h + (h |> rms_norm |> gqa(4, 2, 2, 3 * (l % 2)))
        z = rms_norm(h)
        gate = dense(z, 2 * width)
        up = dense(z, 2 * width)
        h = h + dense(gelu_tanh(gate) * up, width)
    h = rms_norm(h)
    raw[n, t, v] = h[n, t, e] * embed.W[v, e]
    logits = 30 * tanh(raw / 30)

train gemma(token) where T >= 2:
    logits = gemma(token)
    lse[n, t] = logsumexp[v](logits[n, t, v])
    lse_part = lse[:, 0:T-1]
    logits_part = logits[:, 0:T-1, :]
    nll[n, t: T - 1] = lse_part[n, t] - logits_part[n, t, token[n, t+1]]
    minimize mean(nll) + 1e-2 * mean[n, t](lse[n, t]^2)
    using adamw()
