layer spectral(x: [N, T, C], modes: int) -> y: [N, T, C] where T >= 2 * modes:
    param Wre, Wim: [modes, C, C] ~ normal(0.1)
    re[n, f, c], im[n, f, c] = fft[t -> f](x[n, t, c])
    p = re[:, 0:modes, :]
    q = im[:, 0:modes, :]
    a[n, m, o] = p[n, m, c] * Wre[m, c, o] - q[n, m, c] * Wim[m, c, o]
    b[n, m, o] = p[n, m, c] * Wim[m, c, o] + q[n, m, c] * Wre[m, c, o]
    # a real signal: the other half is the mirrored conjugate
    yre[n, f: T, o] = (a[n, f, o] else 0) + ((a[n, T - f, o] else 0) if f > 0 else 0)
    yim[n, f: T, o] = (b[n, f, o] else 0) - ((b[n, T - f, o] else 0) if f > 0 else 0)
    y[n, t, o], rest[n, t, o] = ifft[f -> t](yre[n, f, o], yim[n, f, o])

model operator(u: f32[N, T], width = 4, modes = 3, depth = 2) -> v: [N, T] where T >= 2 * modes:
    grid[n: N, t: T] = t / T
    h[n, t, r] = concat[r](u[n, t], grid[n, t])
    h = dense(h, width)
    for l in 0..depth:
        h = gelu(spectral(h, modes) + dense(h, width))
    v = (h |> dense(8) |> gelu |> dense(1))[:, :, 0]

train operator(u, target: f32[N, T]):
    v = operator(u)
    minimize mean[n](norm[t](v[n, t] - target[n, t]) / norm[t](target[n, t]))
    using adamw(lr = 1e-3)
