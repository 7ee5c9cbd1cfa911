layer block(x: [N, K]) -> y: [N, K]:
    h = x |> dense(K) |> relu
    expose h
