model network(x: f32[N, 16]) -> y: [N, 8]:
    y = x |> dense(out = 8)
