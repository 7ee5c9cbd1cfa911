# Forward mode by hand (section 6.2): each layer begins the tangents of its own weights, and takes those of all layers
# before it on by its Jacobian. The last step sums them; reverse mode gives the same numbers at a fraction of the cost.

fn summed(tangent: [N, O, I, K]) -> g: [I, K]:
    g[i, k] = sum[n, o](tangent[n, o, i, k])

model forward_mode(
    x: f64[N, 3], hidden = 4
) -> (
    y: [],
    first: [3, hidden],
    second: [hidden, hidden],
    third: [hidden, 2],
    reverse_first: [3, hidden],
    reverse_second: [hidden, hidden],
    reverse_third: [hidden, 2],
):
    param A: [3, hidden] ~ normal
    param B: [hidden, hidden] ~ normal
    param C: [hidden, 2] ~ normal
    h[n, k] = tanh(x[n, i] * A[i, k])
    u[n, k] = tanh(h[n, j] * B[j, k])
    z[n, o] = u[n, k] * C[k, o]
    y = sum(z)
    # T <- J T for all tangents so far, then the tangent of the layer's own weights
    T1 = jacobian(h, A)
    step2 = jacobian(u, h)
    T1_2[n, k, i, j] = step2[n, k, m, l] * T1[m, l, i, j]
    T2 = jacobian(u, B)
    step3 = jacobian(z, u)
    T1_3[n, o, i, j] = step3[n, o, m, l] * T1_2[m, l, i, j]
    T2_3[n, o, i, j] = step3[n, o, m, l] * T2[m, l, i, j]
    T3 = jacobian(z, C)
    first = summed(T1_3)
    second = summed(T2_3)
    third = summed(T3)
    reverse_first = grad(y, A)
    reverse_second = grad(y, B)
    reverse_third = grad(y, C)
