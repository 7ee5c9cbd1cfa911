layer residual_block(x: [N, 64]) -> y: [N, 64]:
    y = x + (x |> dense(128) |> relu)
