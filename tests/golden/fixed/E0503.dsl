model network(x: f32[N, 16]) -> y: [N, 8]:
    y = dense(x, 8, bias = false)
