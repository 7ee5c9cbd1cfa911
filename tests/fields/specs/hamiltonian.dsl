# A Hamiltonian network, integrated by leapfrog steps whose forces are its gradients.
layer energy(q: [N, D], p: [N, D], hidden = 8) -> H: [N]:
    z[n, i] = concat[i](q[n, i], p[n, i])
    h = z |> dense(hidden) |> tanh |> dense(hidden) |> tanh |> dense(1)
    H[n] = h[n, 0] + sum[d](p[n, d]^2) / 2

model hamiltonian(
    q0: f64[N, D], p0: f64[N, D], D = 2, steps = 4, dt = 0.1
) -> (q: [N, D], p: [N, D], drift: [N]):
    use H = energy()
    q = q0
    p = p0
    for s in 0..steps:
        e = sum(H(q, p))
        half = p - dt / 2 * grad(e, q)
        e = sum(H(q, half))
        q = q + dt * grad(e, half)
        e = sum(H(q, half))
        p = half - dt / 2 * grad(e, q)
    drift = H(q, p) - H(q0, p0)

train hamiltonian(q0, p0, q1: f64[N, D], p1: f64[N, D]):
    q, p, drift = hamiltonian(q0, p0)
    minimize mean_squared_error(q, q1) + mean_squared_error(p, p1) + mean(drift^2)
    using adam(lr = 1e-3)
