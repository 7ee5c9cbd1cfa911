model pyramid(x: f32[N, 16]) -> y: [N, 1]:
    h = x
    for l in 0..6:
        h = dense(h, 16 // 2^(l + 1))
    y = h
