# A Gaussian process: the marginal likelihood of data under a kernel, through the Cholesky factor
# of its matrix, trains the length and the noise (appendix A).

model gaussian_process(x: f64[N, D], y: f64[N]) -> log_p: []:
    param log_length: [] = 0
    param log_noise: [] = -2
    distance[a, b] = sum[d]((x[a, d] - x[b, d])^2)
    K[a, b] = exp(-distance[a, b] * exp(-2 * log_length) / 2) + (exp(log_noise) if a == b else 0)
    L = cholesky(K)
    weight = solve(K, y)
    fit = sum[a](y[a] * weight[a])
    volume = 2 * sum[a](log(L[a, a]))
    log_p = -(fit + volume + N * log(2 * pi)) / 2

train gaussian_process(x, y, epochs = 100):
    maximize gaussian_process(x, y)
    using adam(lr = 0.05)
