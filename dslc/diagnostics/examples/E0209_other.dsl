layer block(x: [N, K]) -> y: [N, K]:
    y = x + dense(x, K)

layer wide_block(x: [N, K]) -> y: [N, K]:
    y = x |> dense(4 * K) |> gelu |> dense(K)
