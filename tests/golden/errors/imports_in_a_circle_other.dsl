from "imports_in_a_circle.dsl" import bent

layer block(x: [N, K]) -> y: [N, K]:
    y = x |> dense(K) |> bent
