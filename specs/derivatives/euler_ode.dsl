# A neural differential equation, dx/dt = f(x, t), solved by steps of Euler: a residual network
# whose blocks share one set of parameters (chapter 9).

layer field(x: [N, D], time: []) -> v: [N, D]:
    param W: [D, K = 32] ~ lecun
    param a, b: [K] ~ normal(0.1)
    param U: [K, D] ~ glorot
    h[n, k] = tanh(x[n, i] * W[i, k] + time * a[k] + b[k])
    v[n, d] = h[n, k] * U[k, d]

model euler_ode(x: f32[N, 2], steps = 20) -> (y: [N, 2], path: [steps, N, 2]):
    use f = field()
    scan k in 0..steps:
        past[n, d] = path[k-1, n, d]
        v = f(past, float(k) / steps)
        path[k, n, d] = past[n, d] + v[n, d] / steps
    start path[n, d] = x[n, d]
    y = path[steps-1, :, :]

train euler_ode(x, target: f32[N, 2], batch = 64, epochs = 100):
    y, path = euler_ode(x)
    minimize mean_squared_error(y, target)
    using adam(lr = 1e-2)
