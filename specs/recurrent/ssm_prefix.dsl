# A linear recurrence as an associative scan (chapter 13): h = A h + b composes as pairs (A, b),
# so that all steps are found in a tree instead of a chain. The transitions depend on the input.

# First (P, p), then (Q, q).
fn compose(P: [K, K], p: [K], Q: [K, K], q: [K]) -> (R: [K, K], r: [K]):
    R[i, j] = Q[i, k] * P[k, j]
    r[i] = Q[i, k] * p[k] + q[i]

# The same for diagonal matrices, as numbers.
fn compose_diagonal(a, b, c, d) -> (product, shift):
    product = a * c
    shift = c * b + d

layer full_ssm(x: [N, T, E], states: size) -> y: [N, T, E]:
    param A: [E, S = states, S] ~ normal(0.05)
    param B: [E, S] ~ glorot
    param C: [S, E] ~ glorot
    M[n, t, i, j] = x[n, t, e] * A[e, i, j] + (0.5 if i == j else 0)
    b[n, t, i] = x[n, t, e] * B[e, i]
    all_M[n, t, :, :], h[n, t, :] = prefix[t](compose, M[n, t, :, :], b[n, t, :])
    y[n, t, e] = h[n, t, i] * C[i, e]

layer diagonal_prefix(x: [N, T, E]) -> y: [N, T, E]:
    a = x |> dense(E) |> sigmoid
    all_a[n, t, e], h[n, t, e] = prefix[t](compose_diagonal, a[n, t, e], x[n, t, e])
    y = h

model ssm_prefix(x: f32[N, T, features], features = 8, classes = 4) -> logits: [N, classes]:
    h = x + full_ssm(layer_norm(x), 4)
    h = h + diagonal_prefix(layer_norm(h))
    logits = h |> global_avg_pool |> dense(classes)

train ssm_prefix(x, label: i32[N] < classes, batch = 32, epochs = 10):
    minimize cross_entropy(ssm_prefix(x), label)
    using adam(lr = 1e-3)
