# Three layers of long short-term memory that classify a sequence. As in nn.LSTM, input and state have a bias each.

layer memory_unit(x: [N, T, I], hidden: size) -> h: [N, T, K = hidden]:
    param Wi, Wf, Wc, Wo: [I, K] ~ glorot
    param Ui, Uf, Uc, Uo: [K, K] ~ orthogonal
    param bi, bf, bc, bo, di, df, dc, do: [K] ~ zeros
    scan t:
        i[n, k] = sigmoid(x[n, t, p] * Wi[p, k] + bi[k] + h[n, t-1, j] * Ui[j, k] + di[k])
        f[n, k] = sigmoid(x[n, t, p] * Wf[p, k] + bf[k] + h[n, t-1, j] * Uf[j, k] + df[k])
        u[n, k] = tanh(x[n, t, p] * Wc[p, k] + bc[k] + h[n, t-1, j] * Uc[j, k] + dc[k])
        o[n, k] = sigmoid(x[n, t, p] * Wo[p, k] + bo[k] + h[n, t-1, j] * Uo[j, k] + do[k])
        c[n, t, k] = f[n, k] * c[n, t-1, k] + i[n, k] * u[n, k]
        h[n, t, k] = o[n, k] * tanh(c[n, t, k])
    start h = 0
    start c = 0

model lstm(x: f32[N, T, inputs], inputs = 80, hidden = 256, classes = 10) -> logits: [N, classes]:
    h = x |> memory_unit(hidden) |> memory_unit(hidden) |> memory_unit(hidden)
    logits = dense(h[:, T-1, :], classes)

train lstm(x, label: i32[N] < classes):
    minimize cross_entropy(lstm(x), label)
    using adam(lr = 1e-3)
