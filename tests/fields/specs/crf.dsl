# A linear-chain random field over the states of a bidirectional LSTM: partition function, score, best path.
model crf(
    word: i32[N, T] < vocabulary, gold: i32[N, T] < tags, vocabulary = 20, tags = 4, width = 6
) -> (loss: [], path: i64[N, T]) where T >= 2:
    e = embedding(word, vocabulary, width)
    forth = lstm(e, width)
    back = lstm(e[:, ::-1, :], width)
    h[n, t, k] = concat[k](forth[n, t, k], back[n, T-1-t, k])
    emission = dense(h, tags)
    param A: [tags, tags] ~ normal(0.1)
    param first, last: [tags] ~ normal(0.1)
    scan t in 1..T:
        alpha[n, t, j] = logsumexp[i](alpha[n, t-1, i] + A[i, j]) + emission[n, t, j]
        best[n, t, j] = max[i](best[n, t-1, i] + A[i, j]) + emission[n, t, j]
        from_[n, t, j] = argmax[i](best[n, t-1, i] + A[i, j])
    start alpha[n, j] = first[j] + emission[n, 0, j]
    start best[n, j] = first[j] + emission[n, 0, j]
    start from_ = 0
    Z[n] = logsumexp[j](alpha[n, T-1, j] + last[j])
    s[n] = (
        first[gold[n, 0]]
        + last[gold[n, T-1]]
        + sum[t](emission[n, t, gold[n, t]])
        + sum[t](A[gold[n, t-1], gold[n, t]] if t > 0 else 0)
    )
    loss = mean(Z - s)
    end[n] = argmax[j](best[n, T-1, j] + last[j])
    scan t reversed:
        path[n, t] = from_[n, clamp(t + 1), path[n, t+1]] if t < T - 1 else end[n]

train crf(word, gold):
    loss, path = crf(word, gold)
    minimize loss
    metric hits = mean[n, t](1 if path[n, t] == gold[n, t] else 0)
    using adam(lr = 1e-2)
