model twins(a: f32[N, 16], b: f32[N, 32]) -> y: [N, 8]:
    use look = dense(8)
    u = look(a)
    v = look(b)
    y = u * v
