model network(x: f32[N, T, 16]) -> y: [N, T, 16]:
    y = attention(x, heads = 0)
