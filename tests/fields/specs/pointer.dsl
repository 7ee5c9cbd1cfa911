layer lstm_step(x: [N, I], h: [N, K], c: [N, K]) -> (hn: [N, K], cn: [N, K]):
    use gates = dense(4 * K)
    z[n, i] = concat[i](x[n, i], h[n, i])
    g = gates(z)
    i = sigmoid(g[:, 0:K])
    f = sigmoid(g[:, K:2*K])
    o = sigmoid(g[:, 2*K:3*K])
    u = tanh(g[:, 3*K:4*K])
    cn = f * c + i * u
    hn = o * tanh(cn)

model pointer(
    source: i32[N, S] < V, target: i32[N, T] < V, length: i32[N], V: size = 9, width = 3
) -> (p: [N, T, V], cover: []):
    use embed = embedding(V, width)
    memory = lstm(embed(source), width)
    use cell = lstm_step()
    param Wh, Ws: [width, width] ~ glorot
    param wc, v: [width] ~ normal
    use out = dense(V)
    use switch = dense(1)
    x = embed(target)
    scan t:
        prev[n, e] = (x[n, t-1, e] else 0)
        inp[n, i] = concat[i](prev[n, i], ctx[n, t-1, i])
        hn, cn = cell(inp, h[:, t-1, :], c[:, t-1, :])
        h[n, t, k] = hn[n, k]
        c[n, t, k] = cn[n, k]
        e[n, s] = (
            v[k] * tanh(Wh[j, k] * memory[n, s, j] + Ws[j, k] * hn[n, j] + wc[k] * cov[n, t-1, s])
        )
        a[n, s] = softmax[s](e[n, s] if s < length[n] else -inf)
        loss[n, t] = sum[s](min(a[n, s], cov[n, t-1, s]))
        cov[n, t, s] = cov[n, t-1, s] + a[n, s]
        ctx[n, t, j] = a[n, s] * memory[n, s, j]
        z[n, i] = concat[i](hn[n, i], ctx[n, t, i])
        pv[n, w] = softmax[w](out(z)[n, w])
        gen[n] = sigmoid(switch(z)[n, 0])
        copy[n, source[n, s]] += a[n, s]
        p[n, t, w] = gen[n] * pv[n, w] + (1 - gen[n]) * copy[n, w]
    start h[n: N, k: width] = 0
    start c[n: N, k: width] = 0
    start cov[n: N, s: S] = 0
    start ctx[n: N, j: width] = 0
    cover = mean(loss)

train pointer(source, target, length):
    p, cover = pointer(source, target, length)
    minimize -mean[n, t](log(p[n, t, target[n, t]] + 1e-9)) + cover
    using adam()
