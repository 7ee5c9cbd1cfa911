model along(x: f32[K], v: f32[M]) -> d: [K]:
    y = tanh(x)
    d = jvp(y, x, v)
