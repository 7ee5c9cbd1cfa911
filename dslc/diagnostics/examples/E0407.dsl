model network(x: f32[N, 16]) -> y: [N, 16]:
    y = x |> dense(16) |> feed_forward("wide")
