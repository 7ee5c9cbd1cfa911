model translator(x: f32[N, T, 100]) -> y: [N, T, 100]:
    y = attention(x, heads = 8)
