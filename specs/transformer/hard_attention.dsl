# Hard attention: each query takes the value of one key, drawn with Gumbel noise (chapter 10).
# Forward the choice is one-hot, backward it is the softmax: a straight-through estimator.

layer hard_attention(x: [N, T, E], temperature = 1.0) -> y: [N, T, E]:
    param Wq, Wk, Wv: [E, D = E] ~ glorot
    q[n, t, d] = x[n, t, e] * Wq[e, d]
    k[n, s, d] = x[n, s, e] * Wk[e, d]
    v[n, s, d] = x[n, s, e] * Wv[e, d]
    score[n, t, s] = q[n, t, d] * k[n, s, d] / sqrt(D)
    training:
        noisy[n, t, s] = (score[n, t, s] + gumbel[n, t, s]()) / temperature
    inference:
        noisy[n, t, s] = score[n, t, s] / temperature
    soft[n, t, s] = softmax[s](noisy[n, t, s])
    best[n, t] = argmax[s](noisy[n, t, s])
    hard[n, t, s] = one_hot[s: T](best[n, t])
    a = soft + stop_grad(hard - soft)
    y[n, t, d] = a[n, t, s] * v[n, s, d]

model attend_once(x: f32[N, T, features], features = 16, classes = 4) -> logits: [N, classes]:
    h = x + hard_attention(layer_norm(x))
    logits = h |> global_avg_pool |> dense(classes)

train attend_once(x, label: i32[N] < classes, batch = 32, epochs = 10):
    minimize cross_entropy(attend_once(x), label)
    using adam(lr = 1e-3)
