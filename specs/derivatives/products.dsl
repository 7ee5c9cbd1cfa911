# Products with the Jacobian of a small network, and the Jacobian itself (chapter 6): forward
# mode gives J u, reverse mode v J, and v (J u) = (v J) u.

model products(
    x: f64[inputs], u: f64[inputs], v: f64[outputs], inputs = 3, outputs = 2
) -> (J: [outputs, inputs], Ju: [outputs], vJ: [inputs], gap: []):
    param W: [inputs, outputs] ~ normal
    y[o] = tanh(x[i] * W[i, o])
    J = jacobian(y, x)
    Ju = jvp(y, x, u)
    vJ = vjp(y, x, v)
    gap = sum[o](v[o] * Ju[o]) - sum[i](vJ[i] * u[i])
