# Least squares three ways: the normal equations solved, inverted, or descended, until steps are short (chapter 4).
# Descent adds lr X' (y - X w): the gradient of half the squared error, with its sign turned.

model least_squares_fit(
    x: f64[N, D], y: f64[N], method = "descent", lr = 1e-3, short = 1e-16, steps = 100
) -> (w: [D], variance: [], used: []):
    if method == "solve":
        w = least_squares(x, y)
        used = 0.0
    elif method == "inverse":
        A[i, j] = x[n, i] * x[n, j]
        B = inv(A)
        w[i] = B[i, j] * x[n, j] * y[n]
        used = 0.0
    else:
        scan t in 0..steps:
            rest[n] = y[n] - x[n, i] * path[t-1, i]
            change[i] = lr * x[n, i] * rest[n]
            moves[t] = moves[t-1] if moves[t-1] == 0 or sum[i](change[i]^2) >= short else 0.0
            path[t, i] = path[t-1, i] + moves[t] * change[i]
        start path[i: D] = 0
        start moves = 1.0
        w = path[steps-1, :]
        used = sum[t](moves[t])
    variance = mean[n]((y[n] - x[n, i] * w[i])^2)
