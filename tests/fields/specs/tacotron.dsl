layer lstm_cell(x: [N, I], h: [N, K], c: [N, K]) -> (h2: [N, K], c2: [N, K]):
    param W: [I, 4, K] ~ glorot
    param U: [K, 4, K] ~ glorot
    param b: [4, K] ~ zeros
    g[n, r, k] = x[n, i] * W[i, r, k] + h[n, j] * U[j, r, k] + b[r, k]
    c2[n, k] = sigmoid(g[n, 1, k]) * c[n, k] + sigmoid(g[n, 0, k]) * tanh(g[n, 2, k])
    h2[n, k] = sigmoid(g[n, 3, k]) * tanh(c2[n, k])

model taco(
    text: i32[N, S] < V, mel: f32[N, T, M], V: size = 7, M = 2, width = 3
) -> (out: [N, T, M], stop: [N, T], att: [N, T, S]):
    use cell = lstm_cell()
    memory = bidirectional_rnn(embedding(text, V, width), width)
    key = dense(memory, width)
    param Wq: [width, width] ~ glorot
    param Wf: [3, 2, width] ~ glorot
    param v: [width] ~ normal
    use pre = dense(width)
    use frame = dense(M)
    use halt = dense(1)
    scan t:
        last[n, m] = mel[n, t-1, m] if t > 0 else 0
        p = relu(pre(last))
        inp[n, i] = concat[i](p[n, i], context[n, t-1, i])
        hn, cn = cell(inp, h[:, t-1, :], c[:, t-1, :])
        h[n, t, k] = hn[n, k]
        c[n, t, k] = cn[n, k]
        location[n, s: S, j] = (
            Wf[a, 0, j] * (w[n, t-1, s+a-1] else 0) + Wf[a, 1, j] * (total[n, t-1, s+a-1] else 0)
        )
        score[n, s] = v[j] * tanh(hn[n, k] * Wq[k, j] + key[n, s, j] + location[n, s, j])
        w[n, t, s] = softmax[s](score[n, s])
        total[n, t, s] = total[n, t-1, s] + w[n, t, s]
        context[n, t, e] = w[n, t, s] * memory[n, s, e]
        z[n, i] = concat[i](hn[n, i], context[n, t, i])
        f = frame(z)
        out[n, t, m] = f[n, m]
        q = halt(z)
        stop[n, t] = q[n, 0]
    start h[n: N, k: width] = 0
    start c[n: N, k: width] = 0
    start w[n: N, s: S] = 0
    start total[n: N, s: S] = 0
    start context[n: N, e: 2 * width] = 0
    att[n, t, s] = w[n, t, s]

train taco(text, mel, done: binary f32[N, T]):
    out, stop, att = taco(text, mel)
    guide[n, t, s] = att[n, t, s] * (1 - exp(-(s / S - t / T)^2 / (2 * 0.2^2)))
    minimize (
        mean((out - mel)^2)
        + mean(abs(out - mel))
        + mean[n, t](softplus(stop[n, t]) - done[n, t] * stop[n, t])
        + mean(guide)
    )
    using adam()
