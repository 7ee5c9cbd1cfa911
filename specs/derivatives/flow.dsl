# A normalising flow: an invertible map from data to normal noise, the density that it gives by
# the change of variables, and samples by the inverse map (chapter 9).

model flow(x: f64[N, D], D = 2) -> (log_p: [N], sample: [N, D]):
    param A: [D, D] ~ identity
    param b: [D] ~ zeros
    param log_tail: [D] ~ zeros
    tail[i] = exp(log_tail[i])
    u[n, i] = A[i, j] * x[n, j] + b[i]
    z[n, i] = sinh(tail[i] * asinh(u[n, i]))
    stretch[n, i] = tail[i] * cosh(tail[i] * asinh(u[n, i])) / sqrt(1 + u[n, i]^2)
    log_volume[n] = log(abs(det(A))) + sum[i](log(stretch[n, i]))
    log_p[n] = log_volume[n] - sum[i](z[n, i]^2 + log(2 * pi)) / 2
    noise[n: N, i: D] = normal[n, i]()
    back[n, i] = sinh(asinh(noise[n, i]) / tail[i])
    B = inv(A)
    sample[n, i] = B[i, j] * (back[n, j] - b[j])

train flow(x, batch = 128, epochs = 50):
    log_p, sample = flow(x)
    maximize mean(log_p)
    using adam(lr = 5e-3)
