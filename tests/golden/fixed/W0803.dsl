layer block(x: [N, K]) -> y: [N, K]:
    h = x |> dense(K) |> relu
    g = x |> dense(K) |> sigmoid
    y = dense(h, K)
    expose g
