# The collapsed bound of a sparse Gaussian process with one length scale for each feature.
fn kernel(a: [A, F], b: [B, F], log_scale: [F], log_amplitude: []) -> k: [A, B]:
    d2[i, j] = sum[f]((a[i, f] - b[j, f])^2 / exp(2 * log_scale[f]))
    k = exp(2 * log_amplitude - d2 / 2)

model sparse_gp(x: f64[N, F], y: f64[N], F = 2, M = 4) -> (bound: [], mean_at_x: [N]):
    param z: [M, F] ~ normal(1.0)
    param log_scale: [F] ~ zeros
    param log_amplitude: [] = 0
    param log_noise: [] = -1
    s2 = exp(2 * log_noise)
    Kzz = kernel(z, z, log_scale, log_amplitude)
    Kzz[i, j] = Kzz[i, j] + (1e-6 if i == j else 0)
    Kzx = kernel(z, x, log_scale, log_amplitude)
    L = cholesky(Kzz)
    A = solve(L, Kzx) / exp(log_noise)
    B[i, j] = A[i, n] * A[j, n] + (1 if i == j else 0)
    LB = cholesky(B)
    Ay[i] = A[i, n] * y[n]
    c = solve(LB, Ay) / exp(log_noise)
    trace = N * exp(2 * log_amplitude) - s2 * sum(A^2)
    bound = (
        -N / 2 * log(2 * pi)
        - sum[i](log(LB[i, i]))
        - N / 2 * log(s2)
        - sum(y^2) / (2 * s2)
        + sum(c^2) / 2
        - trace / (2 * s2)
    )
    u = solve(B, Ay)
    mean_at_x[n] = A[i, n] * u[i]

train sparse_gp(x, y):
    bound, m = sparse_gp(x, y)
    minimize -bound / N
    using adam(lr = 1e-2)
