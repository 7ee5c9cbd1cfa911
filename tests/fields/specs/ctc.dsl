model ctc(
    x: f32[N, T, C], label: i32[N, U] < K, frames: i32[N], length: i32[N], K: size = 5
) -> (logits: [N, T, K + 1], nll: [N]):
    h = gru(x, 4)
    logits = dense(h, K + 1)
    lp[n, t, k] = log_softmax[k](logits[n, t, k])
    ext[n, s: 2*U + 1] = label[n, s//2] if s % 2 == 1 else K
    emit[n, t, s] = lp[n, t, ext[n, s]]
    skip[n, s: 2*U + 1] = s >= 2 and s % 2 == 1 and ext[n, s] != ext[n, s-2]
    scan t:
        stay[n, s] = alpha[n, t-1, s]
        step[n, s: 2*U + 1] = (alpha[n, t-1, s-1] else -inf)
        jump[n, s: 2*U + 1] = (alpha[n, t-1, s-2] else -inf) if skip[n, s] else -inf
        first[n: N, s: 2*U + 1] = 0 if s <= 1 else -inf
        move[n, s] = (
            log(exp(stay[n, s]) + exp(step[n, s]) + exp(jump[n, s])) if t > 0 else first[n, s]
        )
        alpha[n, t, s] = move[n, s] + emit[n, t, s] if t < frames[n] else stay[n, s]
    start alpha = -inf
    a[n] = alpha[n, T-1, clamp(2 * length[n])]
    b[n] = alpha[n, T-1, clamp(2 * length[n] - 1)] if length[n] > 0 else -inf
    nll[n] = -logaddexp(a[n], b[n])

train ctc(x, label, frames, length):
    logits, nll = ctc(x, label, frames, length)
    minimize mean[n](nll[n] / max(1, length[n]))
    using adam()
