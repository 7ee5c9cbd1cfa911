model classifier(x: f32[N, 64]) -> y: [N, 10]:
    h = x |> dense(32)
    h = relu(h)
    y = dense(h, 10)
