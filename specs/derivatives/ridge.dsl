# Ridge regression in closed form; the strength of the penalty is trained on other data, through
# the solution of the normal equations (chapters 4, 6).

layer ridge_solution(x: [N, D], y: [N]) -> w: [D]:
    param log_strength: [] = 0
    A[i, j] = x[n, i] * x[n, j] + (exp(log_strength) if i == j else 0)
    b[i] = x[n, i] * y[n]
    w = solve(A, b)

model ridge(x: f64[N, D], y: f64[N], x_new: f64[M, D]) -> y_new: [M]:
    w = ridge_solution(x, y)
    y_new[m] = x_new[m, i] * w[i]
    expose w

train ridge(x, y, x_new, target: f64[M], epochs = 50):
    minimize mean_squared_error(ridge(x, y, x_new), target)
    using adam(lr = 0.1)
