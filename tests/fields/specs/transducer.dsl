# The loss of a recurrent transducer: a sum over all alignments, by a recurrence over frames and labels.
model transducer(
    frames: f64[N, T, F], label: i32[N, U] < vocabulary, F = 5, vocabulary = 6, width = 8
) -> loss_each: [N]:
    enc = frames |> gru(width) |> dense(width)
    token[n, u] = concat[u](0, label[n, u] + 1)
    pred = token |> embedding(vocabulary + 1, width) |> gru(width) |> dense(width)
    joint[n, t, u, k] = tanh(enc[n, t, k] + pred[n, u, k])
    logits = dense(joint, vocabulary + 1)
    lp[n, t, u, v] = log_softmax[v](logits[n, t, u, v])
    blank[n, t, u] = lp[n, t, u, 0]
    emit[n, t, u: U] = lp[n, t, clamp(u), label[n, u] + 1]
    scan t:
        stay[n, u] = alpha[n, t-1, u] + blank[n, t-1, u] if t > 0 else 0 if u == 0 else -inf
        scan u:
            alpha[n, t, u] = logaddexp(
                stay[n, u], alpha[n, t, u-1] + emit[n, t, u-1] if u > 0 else -inf
            )
    loss_each[n] = -(alpha[n, T-1, U] + blank[n, T-1, U])

train transducer(frames, label):
    minimize mean(transducer(frames, label))
    using adam(lr = 1e-3)
