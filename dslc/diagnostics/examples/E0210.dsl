layer tower(x: [N, K], depth: int) -> y: [N, K]:
    y = x |> dense(K) |> tower(depth - 1)
