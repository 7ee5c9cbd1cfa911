model tied(x: f32[N, 64]) -> y: [N, 64]:
    use encode = dense(16)
    code[n, k] = x[n, i] * encode.W[i, k]
    y = encode(code)
