layer tower(x: [N, K], depth = 2) -> y: [N, K]:
    h = x
    for l in 0..depth:
        h = h |> dense(K)
        h = relu(h)
    y = h
