model classifier(x: f32[N, 64]) -> y: [N, 10]:
    hidden = x |> dense(32) |> relu
    y = dense(hidden, 10)
