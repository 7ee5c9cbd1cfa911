# A radiance field: rays, stratified samples, positional encoding, a network with a skip, volume rendering.
fn encoded(x: [..., 3], bands = 4) -> y: [..., 6 * bands]:
    s[..., d, b: bands] = sin(2^b * pi * x[..., d])
    c[..., d, b: bands] = cos(2^b * pi * x[..., d])
    both[..., d, b, r] = concat[r](s[..., d, b], c[..., d, b])
    y[..., (d b r)] = both[..., d, b, r]

layer field(x: [N, S, 3], view: [N, 3], width = 16) -> (sigma: [N, S], colour: [N, S, 3]):
    e = encoded(x)
    h = e |> dense(width) |> relu |> dense(width) |> relu
    k[n, s, i] = concat[i](h[n, s, i], e[n, s, i])
    h = k |> dense(width) |> relu
    raw = dense(h, 1)
    sigma = softplus(raw[:, :, 0])
    v = encoded(view, bands = 2)
    together[n, s, i] = concat[i](h[n, s, i], v[n, i])
    colour = together |> dense(width) |> relu |> dense(3) |> sigmoid

model radiance(
    origin: f64[N, 3], direction: f64[N, 3], jitter: f64[N, S], near = 1.0, far = 3.0
) -> (rgb: [N, 3], depth: [N]) where S >= 2:
    unit[n, d] = direction[n, d] / sqrt(sum[e](direction[n, e]^2))
    t[n, s] = near + (far - near) * (s + jitter[n, s]) / S
    x[n, s, d] = origin[n, d] + t[n, s] * unit[n, d]
    sigma, colour = field(x, unit)
    delta[n, s: S] = (t[n, s+1] else 1e10) - t[n, s]
    alpha[n, s] = 1 - exp(-sigma[n, s] * delta[n, s])
    through[n, s] = cumprod[s](1 - alpha[n, s] + 1e-10)
    weight[n, s: S] = alpha[n, s] * (through[n, s-1] else 1)
    rgb[n, d] = weight[n, s] * colour[n, s, d] + 1 - sum[s](weight[n, s])
    depth[n] = weight[n, s] * t[n, s]

train radiance(origin, direction, jitter, target: f64[N, 3]):
    rgb, depth = radiance(origin, direction, jitter)
    minimize mean_squared_error(rgb, target)
    using adam(lr = 5e-4)
