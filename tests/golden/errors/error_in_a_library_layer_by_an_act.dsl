fn gate(x, y) = x * sigmoid(y)

model network(x: f32[N, 16]) -> y: [N, 16]:
    y = feed_forward(x, 64, act = gate)
