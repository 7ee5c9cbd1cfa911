# A gated recurrent classifier. As in nn.GRU, the reset gate acts on the projected state, and input and state have
# a bias each.

layer gated_unit(x: [N, T, I], hidden: size) -> h: [N, T, K = hidden]:
    param Wr, Wz, Wc: [I, K] ~ glorot
    param Ur, Uz, Uc: [K, K] ~ orthogonal
    param br, bz, bc, dr, dz, dc: [K] ~ zeros
    scan t:
        r[n, k] = sigmoid(x[n, t, i] * Wr[i, k] + br[k] + h[n, t-1, j] * Ur[j, k] + dr[k])
        z[n, k] = sigmoid(x[n, t, i] * Wz[i, k] + bz[k] + h[n, t-1, j] * Uz[j, k] + dz[k])
        s[n, k] = h[n, t-1, j] * Uc[j, k] + dc[k]
        c[n, k] = tanh(x[n, t, i] * Wc[i, k] + bc[k] + r[n, k] * s[n, k])
        h[n, t, k] = (1 - z[n, k]) * c[n, k] + z[n, k] * h[n, t-1, k]
    start h = 0

model gru(x: f32[N, T, inputs], inputs = 64, hidden = 128, classes = 10) -> logits: [N, classes]:
    h = gated_unit(x, hidden)
    logits = dense(h[:, T-1, :], classes)

train gru(x, label: i32[N] < classes):
    minimize cross_entropy(gru(x), label)
    using adam(lr = 1e-3)
