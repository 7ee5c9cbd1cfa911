model network(x: f32[N, 784]) -> y: [N, 10]:
    h = x |> desne(64) |> relu
    g = h |> dense(32)
    a[n, k] = g[n, k] * h[n, k]
    y = dense(a, 10)
