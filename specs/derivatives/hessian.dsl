# Gradient, Hessian and its eigenvalues at a point of a surface (chapters 2, 6): where the
# gradient is zero, the signs of the eigenvalues tell minima from saddles.

model surface(
    x: f64[2], v: f64[2]
) -> (value: [], slope: [2], H: [2, 2], Hv: [2], eigenvalue: [2], minimum: bool[]):
    value = sin(x[0]) * cos(x[1]) + sin(x[0] / 2) * cos(x[1] / 2)
    slope = grad(value, x)
    H = hessian(value, x)
    Hv = jvp(slope, x, v)
    eigenvalue, basis = eigh(H)
    minimum = all[i](eigenvalue[i] > 0)
    product = prod[i](eigenvalue[i])
    expose basis, product
