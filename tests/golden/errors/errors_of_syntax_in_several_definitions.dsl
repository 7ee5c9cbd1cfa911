fn squared(x) = x ** 2

fn half(x) = .5 * x

layer block(x: [N, K]) -> y: [N, K]:
    y = squared(half(x)

model network(x: f32[N, 8]) -> y: [N, 8]:
    y = x |> block |> squared
