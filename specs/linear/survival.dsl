# Discrete survival times: a chance to fail in each period, their complements multiplied up
# (appendix A). The baseline hazard never falls, as a running maximum of free values.

model survival(x: f32[N, features], features = 4, periods = 12) -> alive: [N, periods]:
    param base: [periods] ~ normal
    param w: [features] ~ zeros
    risk[n] = x[n, i] * w[i]
    level[t] = cummax[t](base[t])
    hazard[n, t] = sigmoid(level[t] + risk[n])
    alive[n, t] = cumprod[t](1 - hazard[n, t])

train survival(x, period: i32[N] < periods, failed: binary f32[N], batch = 64, epochs = 50):
    alive = survival(x)
    before[n, t: periods] = (alive[n, t-1] else 1)
    end[n] = alive[n, period[n]]
    chance[n] = before[n, period[n]] - end[n]
    minimize -mean[n](failed[n] * log(chance[n]) + (1 - failed[n]) * log(end[n]))
    using adam(lr = 0.02)
