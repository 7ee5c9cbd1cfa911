model relaxed(x: f32[N, D], steps = 4) -> y: [N, D]:
    z = x
    scan i in 0..steps:
        z[n, d] = z[n, d] + 0.1 * tanh(z[n, d])
    y = z
