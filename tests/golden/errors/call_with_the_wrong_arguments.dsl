model network(x: f32[N, T, 16]) -> y: [N, T, 16]:
    a = attention(x, head = 4)
    b = attention(x, 4, 2)
    c = attention(heads = 4)
    d = attention(x, heads = "four")
    y = a + b + c + d
