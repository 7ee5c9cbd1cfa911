layer tower(x: [N, K], depth = 3) -> y: [N, K]:
    h = x
    for l in 0..depth:
        h = h |> dense(K) |> relu
    y = h
