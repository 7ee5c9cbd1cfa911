# Recurrent layers over x[n, t, i]: the state after step t depends on that after step t - 1.

# Elman network: the state is an activation of a linear map of input and state.
layer rnn(x: [N, T, I], hidden: size, act = tanh) -> h: [N, T, K = hidden]:
    param W: [I, K] ~ glorot
    param U: [K, K] ~ orthogonal
    param b: [K] ~ zeros
    scan t:
        h[n, t, k] = act(x[n, t, i] * W[i, k] + h[n, t-1, j] * U[j, k] + b[k])
    start h = 0

# Light GRU: a gate z chooses between the old state and a candidate c.
layer light_gru(x: [N, T, I], hidden: size, act = tanh) -> h: [N, T, K = hidden]:
    param Wz, Wc: [I, K] ~ glorot
    param Uz, Uc: [K, K] ~ orthogonal
    param bz, bc: [K] ~ zeros
    scan t:
        z[n, k] = sigmoid(x[n, t, i] * Wz[i, k] + h[n, t-1, j] * Uz[j, k] + bz[k])
        c[n, k] = act(x[n, t, i] * Wc[i, k] + h[n, t-1, j] * Uc[j, k] + bc[k])
        h[n, t, k] = (1 - z[n, k]) * h[n, t-1, k] + z[n, k] * c[n, k]
    start h = 0

# Gated recurrent unit: a second gate r resets the part of the state that the candidate sees.
layer gru(x: [N, T, I], hidden: size) -> h: [N, T, K = hidden]:
    param Wr, Wz, Wc: [I, K] ~ glorot
    param Ur, Uz, Uc: [K, K] ~ orthogonal
    param br, bz, bc: [K] ~ zeros
    scan t:
        r[n, k] = sigmoid(x[n, t, i] * Wr[i, k] + h[n, t-1, j] * Ur[j, k] + br[k])
        z[n, k] = sigmoid(x[n, t, i] * Wz[i, k] + h[n, t-1, j] * Uz[j, k] + bz[k])
        c[n, k] = tanh(x[n, t, i] * Wc[i, k] + r[n, j] * h[n, t-1, j] * Uc[j, k] + bc[k])
        h[n, t, k] = (1 - z[n, k]) * h[n, t-1, k] + z[n, k] * c[n, k]
    start h = 0

# Long short-term memory: a cell c, kept by gate f and filled by gate g, shown through gate o.
layer lstm(x: [N, T, I], hidden: size) -> h: [N, T, K = hidden]:
    param Wf, Wg, Wo, Wc: [I, K] ~ glorot
    param Uf, Ug, Uo, Uc: [K, K] ~ orthogonal
    param bf: [K] = 1
    param bg, bo, bc: [K] ~ zeros
    scan t:
        f[n, k] = sigmoid(x[n, t, i] * Wf[i, k] + h[n, t-1, j] * Uf[j, k] + bf[k])
        g[n, k] = sigmoid(x[n, t, i] * Wg[i, k] + h[n, t-1, j] * Ug[j, k] + bg[k])
        o[n, k] = sigmoid(x[n, t, i] * Wo[i, k] + h[n, t-1, j] * Uo[j, k] + bo[k])
        u[n, k] = tanh(x[n, t, i] * Wc[i, k] + h[n, t-1, j] * Uc[j, k] + bc[k])
        c[n, t, k] = f[n, k] * c[n, t-1, k] + g[n, k] * u[n, k]
        h[n, t, k] = o[n, k] * tanh(c[n, t, k])
    start h = 0
    start c = 0

# Linear state space model with a full transition matrix.
layer linear_ssm(x: [N, T, I], states: size, out: size) -> y: [N, T, O = out]:
    param A: [S = states, S] ~ orthogonal
    param B: [I, S] ~ glorot
    param C: [S, O] ~ glorot
    param D: [I, O] ~ glorot
    scan t:
        h[n, t, s] = h[n, t-1, r] * A[r, s] + x[n, t, i] * B[i, s]
    start h = 0
    y[n, t, o] = h[n, t, s] * C[s, o] + x[n, t, i] * D[i, o]

# Linear state space model with a diagonal transition, between 0 and 1 by construction.
layer diagonal_ssm(x: [N, T, I], states: size, out: size) -> y: [N, T, O = out]:
    param nu: [S = states] ~ uniform(-4, 0)
    param B: [I, S] ~ glorot
    param C: [S, O] ~ glorot
    param D: [I, O] ~ glorot
    decay[s] = exp(-exp(nu[s]))
    scan t:
        h[n, t, s] = decay[s] * h[n, t-1, s] + x[n, t, i] * B[i, s]
    start h = 0
    y[n, t, o] = h[n, t, s] * C[s, o] + x[n, t, i] * D[i, o]

# Two Elman networks, one from each end; their states stand side by side.
layer bidirectional_rnn(x: [N, T, I], hidden: size) -> y: [N, T, 2 * hidden]:
    param W, V: [I, K = hidden] ~ glorot
    param U, R: [K, K] ~ orthogonal
    param b, c: [K] ~ zeros
    scan t:
        h[n, t, k] = tanh(x[n, t, i] * W[i, k] + h[n, t-1, j] * U[j, k] + b[k])
    start h = 0
    scan t reversed:
        g[n, t, k] = tanh(x[n, t, i] * V[i, k] + g[n, t+1, j] * R[j, k] + c[k])
    start g = 0
    y[n, t, k] = concat[k](h[n, t, k], g[n, t, k])

# Any recurrent layer, run from both ends with separate parameters.
layer bidirectional(x: [N, T, I], cell: layer) -> y:
    h = cell(x)
    g = cell(x[:, ::-1, :])
    y[n, t, k] = concat[k](h[n, t, k], g[n, T-1-t, k])
