# Probit regression: the normal distribution function in place of the sigmoid (chapter 4).

model probit(x: f32[N, features], features = 2) -> p: [N]:
    param w: [features] ~ zeros
    param b: [] = 0
    p[n] = normal_below(x[n, i] * w[i] + b)

train probit(x, target: binary f32[N], batch = 32, epochs = 50):
    p = probit(x)
    minimize binary_cross_entropy_p(p, target)
    metric mean_score = mean[n](normal_quantile(p[n]))
    using momentum(lr = 0.05)
