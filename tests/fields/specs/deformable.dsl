layer deformable(x: [N, H, W, C], out: size, k = 3) -> y: [N, H, W, out]:
    param K: [k, k, C, out] ~ he
    offset = conv2d(x, 2 * k * k, kernel = k, pad = k // 2)
    gate = sigmoid(conv2d(x, k * k, kernel = k, pad = k // 2))
    off[n, p, q, a, b, r] = offset[n, p, q, (a b r)] where a = k, b = k
    g[n, p, q, a, b] = gate[n, p, q, (a b)] where a = k
    row[n, p, q, a, b] = p + a - k // 2 + off[n, p, q, a, b, 0]
    col[n, p, q, a, b] = q + b - k // 2 + off[n, p, q, a, b, 1]
    r0[n, p, q, a, b] = i32(floor(row[n, p, q, a, b]))
    c0[n, p, q, a, b] = i32(floor(col[n, p, q, a, b]))
    fr = row - r0
    fc = col - c0
    s[n, p, q, a, b, c] = (
        (1 - fr[n, p, q, a, b])
        * (1 - fc[n, p, q, a, b])
        * (x[n, r0[n, p, q, a, b], c0[n, p, q, a, b], c] else 0)
        + fr[n, p, q, a, b]
        * (1 - fc[n, p, q, a, b])
        * (x[n, r0[n, p, q, a, b] + 1, c0[n, p, q, a, b], c] else 0)
        + (1 - fr[n, p, q, a, b])
        * fc[n, p, q, a, b]
        * (x[n, r0[n, p, q, a, b], c0[n, p, q, a, b] + 1, c] else 0)
        + fr[n, p, q, a, b]
        * fc[n, p, q, a, b]
        * (x[n, r0[n, p, q, a, b] + 1, c0[n, p, q, a, b] + 1, c] else 0)
    )
    y[n, p, q, o] = g[n, p, q, a, b] * s[n, p, q, a, b, c] * K[a, b, c, o]

model net(x: f32[N, H, W, C]) -> y: [N, 2]:
    y = x |> deformable(3) |> relu |> global_avg_pool |> dense(2)

train net(x, t: f32[N, 2]):
    minimize mean_squared_error(net(x), t)
    using sgd(lr = 0.1)
