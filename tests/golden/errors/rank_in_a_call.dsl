model vision(image: f32[N, 28, 28]) -> y: [N, 10]:
    h = image |> conv2d(8) |> relu
    y = h |> global_avg_pool |> dense(10)
