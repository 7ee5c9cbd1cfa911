model network(x: f32[N, 16]) -> y: [N, 16]:
    y = layer_norm(dense(16))
