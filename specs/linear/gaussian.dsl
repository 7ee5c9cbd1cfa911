# A normal density with a full covariance matrix, fitted by maximum likelihood (appendix A).
# The covariance is L L' with L lower triangular and a positive diagonal.

model gaussian(x: f32[N, D], D = 2) -> log_p: [N]:
    param mu: [D] ~ zeros
    param raw[i, j]: [D, D] = 1.0 if i == j else 0.0
    L[i, j] = exp(raw[i, j]) if i == j else raw[i, j] if i > j else 0
    covariance[i, j] = L[i, k] * L[j, k]
    centred[n, i] = x[n, i] - mu[i]
    z[n, :] = solve(covariance, centred[n, :])
    distance[n] = centred[n, i] * z[n, i]
    log_p[n] = -(D * log(2 * pi) + logdet(covariance) + distance[n]) / 2
    expose covariance

train gaussian(x, batch = 64, epochs = 100):
    maximize mean(gaussian(x))
    using adam(lr = 0.02)
