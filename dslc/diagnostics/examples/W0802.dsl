layer block(x: [N, K], width = 64) -> y: [N, K]:
    y = x |> dense(K) |> relu
