# An echo state network: the recurrent part is random and fixed, only the readout is trained
# (chapter 13).

layer reservoir(x: [N, T, I], hidden: size, radius = 0.9) -> h: [N, T, K = hidden]:
    frozen param W: [I, K] ~ uniform(-1, 1)
    frozen param U: [K, K] ~ orthogonal
    scan t:
        h[n, t, k] = tanh(x[n, t, i] * W[i, k] + radius * h[n, t-1, j] * U[j, k])
    start h = 0

model echo_state(x: f32[N, T, features], features = 1, hidden = 100) -> y: [N, T, features]:
    h = reservoir(x, hidden)
    known[n, t, c] = concat[c](h[n, t, c], x[n, t, c])
    y = dense(known, features)

# Each step predicts the value of the next one.
train echo_state(x, batch = 16, epochs = 50) where T >= 2:
    y = echo_state(x)
    minimize mean_squared_error(y[:, 0:T-1, :], x[:, 1:T, :])
    using adam(lr = 1e-2)
