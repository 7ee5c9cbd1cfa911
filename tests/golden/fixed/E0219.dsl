model classifier(x: f32[N, 64]) -> y: [N, 10]:
    y = dense(x, 10)
