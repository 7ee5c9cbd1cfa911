# A Mamba block that labels each token: a state space model whose step, input and output maps depend on the token.

layer selective_ssm(x: [N, T, E], states: size) -> y: [N, T, E]:
    param log_A[e: E, s]: [E, S = states] = log(s + 1.0)
    param WB, WC: [E, S] ~ glorot
    param Wd: [E] ~ normal(0.1)
    param bd: [E] = -4
    param D: [E] ~ ones
    step_size[n, t, e] = softplus(x[n, t, e] * Wd[e] + bd[e])
    B[n, t, s] = x[n, t, e] * WB[e, s]
    C[n, t, s] = x[n, t, e] * WC[e, s]
    scan t:
        decay[n, e, s] = exp(-step_size[n, t, e] * exp(log_A[e, s]))
        h[n, t, e, s] = (
            decay[n, e, s] * h[n, t-1, e, s] + step_size[n, t, e] * B[n, t, s] * x[n, t, e]
        )
    start h = 0
    y[n, t, e] = h[n, t, e, s] * C[n, t, s] + D[e] * x[n, t, e]

layer mamba_block(x: [N, T, E], states = 16, expand = 2) -> y: [N, T, E]:
    u = rms_norm(x)
    gate = u |> dense(expand * E, bias = false) |> silu
    h = u |> dense(expand * E, bias = false) |> causal_depthwise_conv1d(4) |> silu
    h = selective_ssm(h, states)
    y = x + dense(h * gate, E, bias = false)

model mamba(x: f32[N, T, width], width = 256, states = 16, classes = 10) -> logits: [N, T, classes]:
    logits = x |> mamba_block(states) |> dense(classes)

train mamba(x, label: i32[N, T] < classes):
    minimize cross_entropy(mamba(x), label)
    using adamw(lr = 1e-3)
