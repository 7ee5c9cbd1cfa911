fn energy(x: [P, 3], eps: [], sigma: [], k: []) -> e: []:
    d[i, j, a] = x[i, a] - x[j, a]
    r2[i, j] = sum[a](d[i, j, a]^2)
    s6[i, j] = (sigma^2 / r2[i, j])^3 if i < j else 0
    e = 4 * eps * sum[i, j](s6[i, j]^2 - s6[i, j]) + k / 2 * sum(x^2)

fn force(x: [P, 3], eps: [], sigma: [], k: []) -> f: [P, 3]:
    f = -grad(energy(x, eps, sigma, k), x)

model dynamics(
    x0: f32[P, 3], v0: f32[P, 3], mass: f32[P], steps = 4, dt = 0.01
) -> (x: [steps, P, 3], e: []):
    param eps: [] = 0.5
    param sigma: [] = 1
    param k: [] = 0.3
    scan t in 0..steps:
        f[p, a] = force(x[t-1, :, :], eps, sigma, k)[p, a]
        h[p, a] = v[t-1, p, a] + dt / 2 * f[p, a] / mass[p]
        x[t, p, a] = x[t-1, p, a] + dt * h[p, a]
        g[p, a] = force(x[t, :, :], eps, sigma, k)[p, a]
        v[t, p, a] = h[p, a] + dt / 2 * g[p, a] / mass[p]
    start x = x0
    start v = v0
    e = energy(x[steps-1, :, :], eps, sigma, k) + sum[p, a](mass[p] * v[steps-1, p, a]^2) / 2

train dynamics(x0, v0, mass, seen: f32[steps, P, 3]):
    x, e = dynamics(x0, v0, mass)
    minimize mean((x - seen)^2) + 1e-3 * e^2
    using adamw(lr = 1e-3)
