fn spline(
    x: [..., D], w: [..., D, K], h: [..., D, K], d: [..., D, K - 1], bound = 3.0
) -> (y: [..., D], log_slope: [..., D]) where K >= 2:
    wid[..., i, k] = 2 * bound * softmax[k](w[..., i, k])
    hei[..., i, k] = 2 * bound * softmax[k](h[..., i, k])
    right[..., i, k] = cumsum[k](wid[..., i, k]) - bound
    top[..., i, k] = cumsum[k](hei[..., i, k]) - bound
    deriv[..., i, k: K + 1] = softplus(d[..., i, k-1]) if k > 0 and k < K else 1
    inside[..., i] = abs(x[..., i]) < bound
    bin[..., i] = sum[k](1 if x[..., i] >= right[..., i, k] and k < K - 1 else 0)
    wk[..., i] = sum[k](wid[..., i, k] * one_hot[k: K](bin[..., i]))
    hk[..., i] = sum[k](hei[..., i, k] * one_hot[k: K](bin[..., i]))
    xr[..., i] = sum[k](right[..., i, k] * one_hot[k: K](bin[..., i]))
    yr[..., i] = sum[k](top[..., i, k] * one_hot[k: K](bin[..., i]))
    d0[..., i] = sum[k](deriv[..., i, k] * one_hot[k: K + 1](bin[..., i]))
    d1[..., i] = sum[k](deriv[..., i, k] * one_hot[k: K + 1](bin[..., i] + 1))
    s = hk / wk
    u = (x - (xr - wk)) / wk
    denominator = s + (d1 + d0 - 2 * s) * u * (1 - u)
    y[..., i] = (
        yr[..., i]
        - hk[..., i]
        + hk[..., i]
        * (s[..., i] * u[..., i]^2 + d0[..., i] * u[..., i] * (1 - u[..., i]))
        / denominator[..., i]
        if inside[..., i]
        else x[..., i]
    )
    log_slope[..., i] = (
        2 * log(s[..., i])
        + log(
            d1[..., i] * u[..., i]^2
            + 2 * s[..., i] * u[..., i] * (1 - u[..., i])
            + d0[..., i] * (1 - u[..., i])^2,
        )
        - 2 * log(denominator[..., i])
        if inside[..., i]
        else 0
    )

layer coupling(x: [N, D], bins: int) -> (y: [N, D], log_det: [N]) where D % 2 == 0, bins >= 2:
    param A[i, j]: [D, D] = 1 if i == j else 0
    v[n, i] = A[i, j] * x[n, j]
    a = v[:, 0:D/2]
    b = v[:, D/2:D]
    raw = a |> dense(5) |> tanh |> dense((D / 2) * (3 * bins - 1))
    theta[n, i, r] = raw[n, (i r)] where i = D / 2
    c, slope = spline(
        b, theta[:, :, 0:bins], theta[:, :, bins:2*bins], theta[:, :, 2*bins:3*bins-1]
    )
    y[n, i] = concat[i](a[n, i], c[n, i])
    log_det[n] = logdet(A) + sum[i](slope[n, i])

model flow(x: f32[N, D], bins = 4, depth = 2, D = 4) -> log_p: [N] where D % 2 == 0:
    z = x
    total[n: N] = 0
    for l in 0..depth:
        z, step = coupling(z, bins)
        total += step
    log_p[n] = total[n] + sum[d](normal_log_density(z[n, d]))

train flow(x):
    minimize -mean(flow(x))
    using adam(lr = 1e-3)
