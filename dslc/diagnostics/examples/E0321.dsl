layer bottleneck(x: [N, K], factor = 0.5) -> y: [N, K]:
    y = x |> dense(64 * factor) |> relu |> dense(K)
