layer bottleneck(x: [N, K]) -> y: [N, K]:
    y = x |> dense(32) |> relu |> dense(K)
