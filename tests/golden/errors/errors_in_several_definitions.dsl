layer linear(x: [N, I], out: size) -> y: [N, O = out]:
    param W: [I, O] ~ xavier
    y[n, o] = x[n, i] * W[o, i]

fn bent(x) = relux(x)

layer block(x: [N, K]) -> y: [N, K]:
    h = x |> linear(64) |> bent
    y[n, k] = h[n, k, 0]

model network(x: f32[N, 784]) -> y: [N, 10]:
    h = block(x)
    y = h + missing

train network(x, label: i32[N] < 10):
    minimize cross_entropy(network(x), label)
    using adamw(lr = 1e-3)
