model network(x: f32[N, 16], z: f32[N, 8]) -> y: [N, 4]:
    use look = dense(4)
    use look2 = dense(4)
    y = look(x) + look2(z)
