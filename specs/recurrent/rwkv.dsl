# RWKV: attention whose weights decay with distance, as a recurrence (chapter 13).
# Sums of exponentials are carried relative to their largest exponent, `top`.

# Each channel a blend of the token and the one before it.
layer token_shift(x: [N, T, E]) -> y: [N, T, E]:
    param mu: [E] = 0.5
    before[n, t: T, e] = (x[n, t-1, e] else 0)
    y[n, t, e] = mu[e] * x[n, t, e] + (1 - mu[e]) * before[n, t, e]

layer time_mix(x: [N, T, E]) -> y: [N, T, E]:
    param rate: [E] ~ uniform(-3, 0)
    param bonus: [E] ~ zeros
    r = x |> token_shift |> dense(E, bias = false) |> sigmoid
    k = x |> token_shift |> dense(E, bias = false)
    v = x |> token_shift |> dense(E, bias = false)
    w[e] = exp(rate[e])
    scan t:
        now[n, e] = k[n, t, e] + bonus[e]
        most[n, e] = max(top[n, t-1, e], now[n, e])
        old[n, e] = exp(top[n, t-1, e] - most[n, e])
        new[n, e] = exp(now[n, e] - most[n, e])
        above[n, e] = old[n, e] * num[n, t-1, e] + new[n, e] * v[n, t, e]
        below[n, e] = old[n, e] * den[n, t-1, e] + new[n, e]
        a[n, t, e] = above[n, e] / below[n, e]
        top[n, t, e] = max(top[n, t-1, e], k[n, t, e]) - w[e]
        keep[n, e] = exp(top[n, t-1, e] - w[e] - top[n, t, e])
        add[n, e] = exp(k[n, t, e] - w[e] - top[n, t, e])
        num[n, t, e] = keep[n, e] * num[n, t-1, e] + add[n, e] * v[n, t, e]
        den[n, t, e] = keep[n, e] * den[n, t-1, e] + add[n, e]
    start top = -inf
    start num = 0
    start den = 0
    y = dense(r * a, E, bias = false)

layer channel_mix(x: [N, T, E]) -> y: [N, T, E]:
    r = x |> token_shift |> dense(E, bias = false) |> sigmoid
    h = x |> token_shift |> dense(4 * E, bias = false) |> squared_relu
    y = r * dense(h, E, bias = false)

model rwkv(
    token: i32[N, T] < vocabulary, vocabulary = 65, width = 64, depth = 2
) -> logits: [N, T, vocabulary]:
    h = token |> embedding(vocabulary, width)
    for l in 0..depth:
        h = h + (h |> layer_norm |> time_mix)
        h = h + (h |> layer_norm |> channel_mix)
    logits = h |> layer_norm |> dense(vocabulary)

train rwkv(token, batch = 16, epochs = 5) where T >= 2:
    logits = rwkv(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    using adamw(lr = 1e-3)
