# Truncated backpropagation: every `window` steps the gradient stops at the carried state, whose
# value goes on (chapter 13). Layer norm at each step keeps the state in range.

layer truncated_rnn(x: [N, T, I], hidden: size, window = 16) -> h: [N, T, K = hidden]:
    param W: [I, K] ~ glorot
    param U: [K, K] ~ orthogonal
    param scale: [K] ~ ones
    scan t in 0..T:
        past[n, k] = stop_grad(h[n, t-1, k]) if t % window == 0 else h[n, t-1, k]
        u[n, k] = x[n, t, i] * W[i, k] + past[n, j] * U[j, k]
        h[n, t, k] = tanh(scale[k] * standardize[k](u[n, k]))
    start h = 0

model truncated(x: f32[N, T, features], features = 2, hidden = 32) -> y: [N] where T >= 2:
    h = truncated_rnn(x, hidden)
    last = h[:, T-1, :]
    out = dense(last, 1)
    y = out[:, 0]

train truncated(x, target: f32[N], batch = 32, epochs = 20):
    minimize mean_squared_error(truncated(x), target)
    using clipped_momentum(lr = 0.01, clip = 1.0)
