layer block(x: [N, K]) -> y: [N, K]:
    h = dense(x, K)
h = relu(h)
y = x + h

model network(x: f32[N, 8]) -> y: [N, 8]:
    y = block(x)
