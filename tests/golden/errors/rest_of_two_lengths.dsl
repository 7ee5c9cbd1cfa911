layer scaled(x: [..., K], g: [..., K]) -> y: [..., K]:
    y[..., k] = x[..., k] * g[..., k]

model network(x: f32[N, T, 8], g: f32[N, 8]) -> y: [N, T, 8]:
    y = scaled(x, g)
