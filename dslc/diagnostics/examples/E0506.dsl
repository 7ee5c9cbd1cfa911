layer add(a: [N, K], b: [N, K]) -> y: [N, K]:
    y = a + b

model network(x: f32[N, 16], z: f32[N, 8]) -> y: [N, 16]:
    y = add(x, z)
