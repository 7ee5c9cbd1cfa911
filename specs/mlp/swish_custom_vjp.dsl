# The trained activation sigmoid(a z + b) (c z + d), its derivative given by hand (chapters 5, 6).
# Each unit has its own a, b, c, d; their gradients are summed over the batch by the compiler.

fn trained_swish(z, a, b, c, d) -> y:
    q = sigmoid(a * z + b)
    r = c * z + d
    y = q * r
    backward (dy) -> (dz, da, db, dc, dd):
        s = q * (1 - q) * r
        dz = dy * (s * a + q * c)
        da = dy * s * z
        db = dy * s
        dc = dy * q * z
        dd = dy * q

layer swish_units(z: [..., K]) -> y: [..., K]:
    param a, c: [K] ~ ones
    param b, d: [K] ~ zeros
    y[..., k] = trained_swish(z[..., k], a[k], b[k], c[k], d[k])

model swish_custom_vjp(x: f32[N, 64], hidden = 64, classes = 10) -> logits: [N, classes]:
    logits = x |> dense(hidden) |> swish_units |> dense(classes)

train swish_custom_vjp(x, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(swish_custom_vjp(x), label)
    using adamw(lr = 1e-3)
