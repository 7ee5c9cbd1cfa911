# A state space model that starts from the HiPPO matrix, whose states hold the coefficients of
# the past in Legendre polynomials (chapter 13). The step from continuous time is exact.

layer hippo(x: [N, T, E], states: size) -> y: [N, T, E]:
    param A[i, j]: [S = states, S] = (
        -sqrt((2 * i + 1) * (2 * j + 1)) if i > j else -(i + 1.0) if i == j else 0
    )
    param B[i]: [S] = sqrt(2 * i + 1)
    param C: [S, E] ~ glorot
    param log_step: [] = -3
    step_size = exp(log_step)
    scaled[i, j] = step_size * A[i, j]
    F = matexp(scaled)
    moved[i] = (F[i, j] - (1 if i == j else 0)) * B[j]
    G = solve(A, moved)
    scan t:
        h[n, t, i, e] = F[i, j] * h[n, t-1, j, e] + G[i] * x[n, t, e]
    start h = 0
    y[n, t, e] = h[n, t, i, e] * C[i, e]

model hippo_forecast(x: f32[N, T, features], features = 1, states = 8) -> y: [N, T, features]:
    y = x |> dense(8) |> hippo(states) |> gelu |> dense(features)

train hippo_forecast(x, batch = 16, epochs = 20) where T >= 2:
    y = hippo_forecast(x)
    minimize mean_squared_error(y[:, 0:T-1, :], x[:, 1:T, :])
    using adam(lr = 1e-3)
