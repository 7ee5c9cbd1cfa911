# An implicit layer: the output is the fixed point s = tanh(W s + u) (chapter 13). It is found by
# iteration; the gradient solves one linear system and needs none of the iterates.

fn fixed_point(W: [K, K], u: [K], steps: int = 50) -> s: [K]:
    scan m in 0..steps:
        z[m, i] = tanh(W[i, j] * z[m-1, j] + u[i])
    start z = 0
    s = z[steps-1, :]
    backward (ds) -> (dW, du):
        d[i] = 1 - s[i]^2
        A[i, j] = (1 if i == j else 0) - d[j] * W[j, i]
        g = solve(A, ds)
        du[i] = d[i] * g[i]
        dW[i, j] = du[i] * s[j]

model implicit(
    x: f32[N, features], features = 64, width = 32, classes = 10
) -> logits: [N, classes]:
    param W: [width, width] ~ normal(0.05)
    u = dense(x, width)
    s[n, :] = fixed_point(W, u[n, :])
    logits = dense(s, classes)

train implicit(x, label: i32[N] < classes, batch = 64, epochs = 10):
    minimize cross_entropy(implicit(x), label)
    using adam(lr = 1e-3)
