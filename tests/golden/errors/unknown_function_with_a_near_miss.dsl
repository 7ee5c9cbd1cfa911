model classifier(x: f32[N, 64]) -> y: [N, 10]:
    y = x |> desne(32) |> relu |> dense(10)
