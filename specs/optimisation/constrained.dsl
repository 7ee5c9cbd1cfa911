# Regularisation as a constraint (section 9.2.1): least squares with the weights kept inside of a ball, or of a cross-polytope,
# by a step of descent and the way back to the nearest point inside. The constraint that a penalised solution fulfils
# has that solution.

# The nearest point with length `radius` at most.
fn into_ball(w: [D], radius: []) -> z: [D]:
    z[d] = w[d] * min(1, radius / norm[d](w[d]))

# The nearest point whose absolute values sum to `radius` at most: all are made smaller by the same number, down to 0.
fn into_cross_polytope(w: [D], radius: []) -> z: [D]:
    least[d] = sort[d](-abs(w[d]))
    total[d] = cumsum[d](-least[d])
    excess[d] = (total[d] - radius) / (d + 1)
    cut = max(0, max[d](excess[d]))
    z[d] = sign(w[d]) * relu(abs(w[d]) - cut)

model constrained(
    X: f64[N, D], t: f64[N], radius: f64[], rate: f64[], steps = 400
) -> (ball: [D], polytope: [D]):
    scan s in 0..steps:
        error[n] = X[n, d] * w[s-1, d] - t[n]
        v[d] = w[s-1, d] - 2 * rate * X[n, d] * error[n]
        w[s, :] = into_ball(v, radius)
    start w = 0
    scan s in 0..steps:
        miss[n] = X[n, d] * z[s-1, d] - t[n]
        u[d] = z[s-1, d] - 2 * rate * X[n, d] * miss[n]
        z[s, :] = into_cross_polytope(u, radius)
    start z = 0
    ball = w[steps-1, :]
    polytope = z[steps-1, :]
