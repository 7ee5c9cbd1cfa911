layer block(x: [N, K], depth: integer, rate: f32) -> y: [N, K]:
    y = x * rate * depth
