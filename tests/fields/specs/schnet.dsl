layer interaction(
    h: [V, C], d: [M], src: i32[M] < V, dst: i32[M] < V, basis: int, cut: float
) -> y: [V, C]:
    rbf[m, k: basis] = exp(-4 * (d[m] - cut * k / (basis - 1))^2)
    window[m] = (cos(pi * d[m] / cut) + 1) / 2 if d[m] < cut else 0
    w = rbf |> dense(C) |> softplus |> dense(C)
    u = dense(h, C)
    agg[dst[m], c] += u[src[m], c] * w[m, c] * window[m]
    y = agg |> dense(C) |> softplus |> dense(C)

layer potential(
    kind: i32[V] < 5, x: [V, 3], src: i32[M] < V, dst: i32[M] < V, width: size
) -> energy: []:
    d[m] = norm[a](x[src[m], a] - x[dst[m], a])
    h = embedding(kind, 5, width)
    for l in 0..2:
        h += interaction(h, d, src, dst, 4, 3.0)
    energy = sum(h |> dense(width) |> softplus |> dense(1))

model schnet(
    kind: i32[V] < 5, x: f32[V, 3], src: i32[M] < V, dst: i32[M] < V
) -> (energy: [], force: [V, 3]):
    energy = potential(kind, x, src, dst, 3)
    force = -grad(energy, x)

train schnet(kind, x, src, dst, E: f32[], f: f32[V, 3]):
    e, g = schnet(kind, x, src, dst)
    minimize (e - E)^2 / V^2 + mean[v](sum[a]((g[v, a] - f[v, a])^2))
    using adam()
