model vision(x: f32[N, 784]) -> y: [N, 10]:
    y = x |> conv2d(8) |> global_avg_pool |> dense(10)
