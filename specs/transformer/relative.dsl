# Attention with a trained bias for each head and each distance t - s (chapter 10).
# The input keep[n, t] tells the words of a text from its padding.

layer relative_attention(
    x: [N, T, E], keep: bool[N, T], heads: int, context: size
) -> y: [N, T, E] where E % heads == 0, T <= context:
    param Wq, Wk, Wv: [E, H = heads, D = E / heads] ~ glorot
    param Wo: [H, D, E] ~ glorot
    param bias: [H, 2*context - 1] ~ zeros
    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]
    k[n, h, s, d] = x[n, s, e] * Wk[e, h, d]
    v[n, h, s, d] = x[n, s, e] * Wv[e, h, d]
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D) + bias[h, t-s+context-1]
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if keep[n, s] else -1e9)
    y[n, t, e] = a[n, h, t, s] * v[n, h, s, d] * Wo[h, d, e]

model relative(
    token: i32[N, T] < vocabulary,
    keep: bool[N, T],
    vocabulary = 100,
    context = 128,
    width = 32,
    heads = 4,
    classes = 2,
) -> logits: [N, classes] where T <= context, width % heads == 0:
    h = token |> embedding(vocabulary, width)
    h = h + relative_attention(layer_norm(h), keep, heads, context)
    h = h + (h |> layer_norm |> feed_forward(4 * width))
    count[n] = max(sum[t](float(keep[n, t])), 1)
    pooled[n, e] = sum[t](h[n, t, e] if keep[n, t] else 0) / count[n]
    logits = dense(pooled, classes)

train relative(token, keep, label: i32[N] < classes, batch = 32, epochs = 10):
    minimize cross_entropy(relative(token, keep), label)
    using adamw(lr = 1e-3)
