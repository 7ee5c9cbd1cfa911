layer first(x: [N, K], mixer: layer) -> y: [N, K]:
    y = x + mixer(x)

layer second(x: [N, K], mixer: layer) -> y: [N, K]:
    y = first(x, mixer)

layer third(x: [N, K], mixer: layer) -> y: [N, K]:
    y = second(x, mixer)

layer fourth(x: [N, K], mixer: layer) -> y: [N, K]:
    y = third(x, mixer)

model network(x: f32[N, 16]) -> y: [N, 16]:
    y = fourth(x, dense(8))
