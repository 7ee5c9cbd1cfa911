# Counts: the logarithm of the expected count is linear in x; the loss is minus the log-likelihood
# of a Poisson variable (chapters 3, 4).

model poisson(x: f32[N, features], features = 4) -> log_rate: [N]:
    param w: [features] ~ zeros
    param b: [] = 0
    log_rate[n] = x[n, i] * w[i] + b

train poisson(x, count: i32[N], batch = 64, epochs = 50):
    log_rate = poisson(x)
    minimize mean[n](exp(log_rate[n]) - count[n] * log_rate[n] + lgamma(count[n] + 1.0))
    metric zeros_expected = mean[n](exp(-exp(log_rate[n])))
    using adam(lr = 0.01)
