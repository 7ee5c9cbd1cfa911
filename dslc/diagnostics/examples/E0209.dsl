from "E0209_other.dsl" import block, wide_blok

model network(x: f32[N, 8]) -> y: [N, 8]:
    y = x |> block |> block
