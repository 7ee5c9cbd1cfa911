# A chain of functions of one number, on a large matrix.

model chain(x: f32[N, K]) -> y: [N, K]:
    y = gelu(x) * sigmoid(x)
