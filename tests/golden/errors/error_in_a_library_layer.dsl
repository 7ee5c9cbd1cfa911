model vision(x: f32[N, 8, 8, 3]) -> y: [N, 4]:
    y = x |> conv2d(16, kernel = 11) |> global_avg_pool |> dense(4)
