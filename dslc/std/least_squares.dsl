# Linear models in closed form: x[n, i] has a row for each example; a column of ones in x is a bias.

# The weights with the least squared error, by the normal equations (section 4.1.3).
fn least_squares(x: [N, D], y: [N]) -> w: [D]:
    A[i, j] = x[n, i] * x[n, j]
    b[i] = x[n, i] * y[n]
    w = solve(A, b)

# Least squares with a penalty strength * (the sum of w^2): ridge regression (section 4.1.5).
fn ridge_regression(x: [N, D], y: [N], strength: []) -> w: [D]:
    A[i, j] = x[n, i] * x[n, j] + (strength if i == j else 0)
    b[i] = x[n, i] * y[n]
    w = solve(A, b)

# The pseudoinverse of a matrix whose columns are independent: P x = 1 (section 4.1.3).
fn pseudoinverse(x: [N, D]) -> P: [D, N]:
    A[i, j] = x[n, i] * x[n, j]
    B[i, n] = x[n, i]
    P = solve(A, B)

# The matrix that takes targets to the predictions of least squares: each is a weighted sum of targets (section 4.1.3).
fn projection(x: [N, D]) -> M: [N, N]:
    P = pseudoinverse(x)
    M[n, m] = x[n, i] * P[i, m]

# How much a matrix stretches its longest direction beyond its shortest one (section 4.1.4); inf where a column vanishes.
fn condition_number(A: [N, D]) -> ratio: [] where N >= D:
    # The square loses half of all digits, so its eigenvectors only turn A, to columns that are nearly perpendicular
    # and can be scaled to length 1. Any fixed turn gives the same ratio: none of it needs a derivative.
    S[i, j] = A[n, i] * A[n, j]
    value, vector = eigh(S)
    turn = stop_grad(vector)
    B[n, j] = A[n, i] * turn[i, j]
    d[j] = stop_grad(norm[n](B[n, j]))
    C[n, j] = B[n, j] / d[j] if d[j] > 0 else 0
    G[i, j] = C[n, i] * C[n, j] + (1 if i == j and d[i] == 0 else 0)
    H = inv(G)
    T[i, j] = H[i, j] / (d[i] * d[j]) if d[i] > 0 and d[j] > 0 else 0
    shortest, rest = eigh(T)
    ratio = sqrt(max(value) * max(shortest)) if all[i](d[i] > 0) else inf
