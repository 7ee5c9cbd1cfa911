# Layer normalisation and softmax over the rows of a large matrix.

model norm(x: f32[N, width], width = 1024) -> y: [N, width]:
    u = layer_norm(x)
    y[n, k] = softmax[k](u[n, k])
