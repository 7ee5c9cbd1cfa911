layer joined(x: [N, K], body: layer) -> y: [N, K]:
    y = x + body(x)

model network(x: f32[N, 16]) -> y: [N, 16]:
    y = x |> joined(dense(32))
