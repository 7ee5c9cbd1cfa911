fn bent(x) = x if x > 0

layer wide(x: [N, K]) -> y: [N, K]:
    y = x |> dense(4 * K) |> gelu |> dense(K)
