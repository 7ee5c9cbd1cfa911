import "E0206_othr.dsl"

model twice(x: f32[N, 8]) -> y: [N, 8]:
    y = 2 * x
