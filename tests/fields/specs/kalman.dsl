# The likelihood of a linear dynamical system with missing observations, by the Kalman filter.
model kalman(
    y: f64[N, T, D], seen: bool[N, T], K = 3, D = 2
) -> (log_likelihood: [N], mean_state: [N, T, K]):
    param A[i, j]: [K, K] = 0.9 if i == j else 0.05
    param C: [D, K] ~ normal(0.5)
    param log_q: [K] = -1
    param log_r: [D] = -0.5
    scan t:
        m_pred[n, i] = A[i, j] * m[n, t-1, j]
        P_pred[n, i, j] = A[i, k] * P[n, t-1, k, l] * A[j, l] + (exp(log_q[i]) if i == j else 0)
        S[n, a, b] = C[a, i] * P_pred[n, i, j] * C[b, j] + (exp(log_r[a]) if a == b else 0)
        v[n, a] = y[n, t, a] - C[a, i] * m_pred[n, i]
        CP[n, a, j] = C[a, i] * P_pred[n, i, j]
        G[n, :, :] = solve(S[n, :, :], CP[n, :, :])
        m[n, t, i] = m_pred[n, i] + (G[n, a, i] * v[n, a] if seen[n, t] else 0)
        P[n, t, i, j] = P_pred[n, i, j] - (G[n, a, i] * CP[n, a, j] if seen[n, t] else 0)
        w[n, :] = solve(S[n, :, :], v[n, :])
        ll[n, t] = (
            -0.5 * (v[n, a] * w[n, a] + logdet(S[n, :, :]) + D * log(2 * pi)) if seen[n, t] else 0
        )
    start m = 0
    start P[n: N, i, j] = 1 if i == j else 0
    log_likelihood[n] = sum[t](ll[n, t])
    mean_state = m

train kalman(y, seen):
    ll, m = kalman(y, seen)
    minimize -mean(ll)
    using adam(lr = 1e-2)
