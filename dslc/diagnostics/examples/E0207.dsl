import "../shared/blocks.dsl"

model m(x: f32[N, 8]) -> y: [N, 8]:
    y = dense(x, 8)
