layer mixed(x: [N, T, E]) -> y: [N, T, E]:
    y = x |> layer_norm |> dense(E)

model network(x: f32[N, 64]) -> y: [N, 64]:
    y = mixed(x)
