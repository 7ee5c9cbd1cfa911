# Linear recurrent unit: a diagonal system with complex poles inside the unit circle, written as
# pairs of real and imaginary parts (chapter 13).

layer lru(x: [N, T, E], states: size) -> y: [N, T, E]:
    param nu: [S = states] ~ uniform(-4, -1)
    param theta: [S] ~ uniform(-2, 1)
    param Br, Bi: [E, S] ~ glorot
    param Cr, Ci: [S, E] ~ glorot
    param D: [E] ~ normal
    radius[s] = exp(-exp(nu[s]))
    pr[s] = radius[s] * cos(exp(theta[s]))
    pi_part[s] = radius[s] * sin(exp(theta[s]))
    gain[s] = sqrt(1 - radius[s]^2)
    ur[n, t, s] = gain[s] * x[n, t, e] * Br[e, s]
    ui[n, t, s] = gain[s] * x[n, t, e] * Bi[e, s]
    scan t:
        re[n, t, s] = pr[s] * re[n, t-1, s] - pi_part[s] * im[n, t-1, s] + ur[n, t, s]
        im[n, t, s] = pr[s] * im[n, t-1, s] + pi_part[s] * re[n, t-1, s] + ui[n, t, s]
    start re = 0
    start im = 0
    y[n, t, e] = re[n, t, s] * Cr[s, e] - im[n, t, s] * Ci[s, e] + D[e] * x[n, t, e]

model lru_classifier(
    x: f32[N, T, features], features = 1, width = 32, states = 32, depth = 2, classes = 10
) -> logits: [N, classes]:
    h = dense(x, width)
    for l in 0..depth:
        h = h + (h |> layer_norm |> lru(states) |> gelu |> glu(width))
    logits = h |> global_avg_pool |> dense(classes)

train lru_classifier(x, label: i32[N] < classes, batch = 32, epochs = 10):
    minimize cross_entropy(lru_classifier(x), label)
    using adamw(lr = 1e-3)
