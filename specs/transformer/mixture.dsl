# A mixture of experts: every token is sent to the few dense layers that score it best.
# The penalty spreads the tokens evenly; hard choices carry no gradient, their weights do.

layer experts(
    x: [N, T, E], count: size, hidden: size, best: int
) -> (y: [N, T, E], balance: []) where best <= count:
    param R: [E, X = count] ~ glorot
    param U: [X, E, F = hidden] ~ glorot
    param V: [X, F, E] ~ glorot
    score[n, t, k] = x[n, t, e] * R[e, k]
    top[n, t, j], chosen[n, t, j] = top_k[k -> j: best](score[n, t, k])
    weight[n, t, j] = softmax[j](top[n, t, j])
    h[n, t, j, f] = relu(x[n, t, e] * U[chosen[n, t, j], e, f])
    y[n, t, e] = weight[n, t, j] * h[n, t, j, f] * V[chosen[n, t, j], f, e]
    load[chosen[n, t, j]: X] += 1.0
    share[k] = mean[n, t](softmax[k](score[n, t, k]))
    balance = X * sum[k](share[k] * stop_grad(load[k])) / (N * T * best)

model mixture(
    token: i32[N, T] < vocabulary, vocabulary = 64, width = 32, count = 4, best = 2, heads = 4
) -> (logits: [N, T, vocabulary], balance: []) where width % heads == 0, best <= count:
    h = token |> embedding(vocabulary, width)
    h = h + (h |> layer_norm |> alibi_attention(heads))
    routed, balance = experts(layer_norm(h), count, 2 * width, best)
    h = h + routed
    logits = h |> layer_norm |> dense(vocabulary)

train mixture(token, batch = 16, epochs = 5) where T >= 2:
    logits, balance = mixture(token)
    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T]) + 0.01 * balance
    using adamw(lr = 1e-3)
