model network(x: f32[N, 16]) -> y: [N, 16]:
    y = x |> dense(out = 16) |> relu
