# Attention-free transformer: every channel has its own softmax over the past, with a bias for
# each pair of positions kept as a product of thin matrices (chapter 13).

layer aft(x: [N, T, E], context: size, rank = 8) -> y: [N, T, E] where T <= context:
    param U, V: [context, R = rank] ~ normal(0.1)
    q = x |> dense(E) |> sigmoid
    k = dense(x, E)
    v = dense(x, E)
    row = U[0:T, :]
    column = V[0:T, :]
    bias[t, s] = row[t, r] * column[s, r]
    a[n, t, s, e] = softmax[s](k[n, s, e] + bias[t, s] if s <= t else -inf)
    y[n, t, e] = q[n, t, e] * a[n, t, s, e] * v[n, s, e]

model attention_free(
    token: i32[N, T] < vocabulary, vocabulary = 65, context = 64, width = 32, depth = 2
) -> logits: [N, T, vocabulary] where T <= context:
    h = token |> embedding(vocabulary, width)
    for l in 0..depth:
        h = h + (h |> layer_norm |> aft(context))
        h = h + (h |> layer_norm |> feed_forward(4 * width))
    logits = h |> layer_norm |> dense(vocabulary)

train attention_free(token, batch = 16, epochs = 5) where T >= 2:
    logits = attention_free(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])
    using adamw(lr = 1e-3)
