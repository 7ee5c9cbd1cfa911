layer repeated_block(x: [N, T, K]) -> y: [N, T, K]:
    h = x
    for t in 0..T:
        h = h |> dense(K) |> relu
    y = h
