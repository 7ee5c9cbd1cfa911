model autoencoder(x: f32[N, 64]) -> y: [N, 64]:
    code = dense(x, 16)
    y[n, i] = code[n, k] * dense.W[i, k]
