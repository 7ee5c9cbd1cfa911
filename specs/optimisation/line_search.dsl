# The best step of each descent on a convex quadratic, x' A x / 2: gradients that follow each other are orthogonal
# (chapter 2).

model line_search(
    root: f64[D, D], begin: f64[D], steps = 20
) -> (height: [S = steps], turn: [S - 1], x: [D]) where steps >= 2:
    A[i, j] = root[k, i] * root[k, j] / D + (1 if i == j else 0)
    scan t in 0..steps:
        g[t, i] = A[i, j] * path[t-1, j]
        bent = g[t, i] * A[i, j] * g[t, j]
        along = sum[i](g[t, i]^2)
        path[t, i] = path[t-1, i] - (along / bent if along > 0 else 0) * g[t, i]
        height[t] = path[t, i] * A[i, j] * path[t, j] / 2
    start path[i] = begin[i]
    one = g[0:steps-1, :]
    next = g[1:steps, :]
    turn[t] = one[t, i] * next[t, i]
    x = path[steps-1, :]
