import "E0208.dsl"

layer wide(x: [N, K]) -> y: [N, K]:
    y = x |> dense(4 * K) |> gelu |> dense(K)
