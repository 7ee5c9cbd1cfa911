model autoencoder(x: f32[N, 64]) -> y: [N, 64]:
    use encode = dense(16)
    code = encode(x)
    y[n, i] = code[n, k] * encode.W[i, k]
