model deep(x: f32[N, 8]) -> y: [N, 8]:
    h = x
    for h in 0..4:
        y = dense(x, 8)
    y = h
