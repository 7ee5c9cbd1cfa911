layer wide(x: [N, K]) -> y: [N, K]:
    y = x |> dense(4 * K) |> gleu |> dense(K)
