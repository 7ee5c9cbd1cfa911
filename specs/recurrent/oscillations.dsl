# A signal as a sum of damped oscillations: complex poles z and amplitudes c, as pairs, of which y[t] is the real part of
# the sum of c z^t. It is the answer of a diagonal state space model to one push (chapter 13).

model oscillations(time: f32[T], poles = 4) -> y: [T]:
    param log_decay: [S = poles] ~ uniform(-4, -2)
    param frequency: [S] ~ uniform(0, 1)
    param c_re, c_im: [S] ~ normal(0.3)
    growth[t, s] = -exp(log_decay[s]) * time[t]
    phase[t, s] = frequency[s] * time[t]
    z_re, z_im = complex_exp(growth, phase)
    re[t, s], im[t, s] = complex_product(c_re[s], c_im[s], z_re[t, s], z_im[t, s])
    y[t] = sum[s](re[t, s])

train oscillations(time, target: f32[T], epochs = 300):
    y = oscillations(time)
    minimize mean_squared_error(y, target)
    using adam(lr = 0.02)
