layer inner(x: [N, K], mixer: layer) -> y: [N, K]:
    y = x + mixer(x)

layer outer(x: [N, K], mixer: layer) -> y: [N, K]:
    y = x |> inner(mixer) |> relu

model network(x: f32[N, 16]) -> y: [N, 16]:
    y = outer(x, mixer = dense(8))
