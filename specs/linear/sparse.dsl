# Sparse weights without an absolute value (section 9.2.1): w = a * b, and the squares of both in place of |w|. The least
# that they can be is 2 |w|, so this is the lasso with the penalty lam.

model sparse(x: f32[N, features], features = 10) -> y: [N]:
    param a, b: [features] = 1
    w = a * b
    y[n] = x[n, i] * w[i]
    expose w

train sparse(x, target: f32[N], lam = 0.1, batch = 64, epochs = 200):
    minimize mean_squared_error(sparse(x), target) + lam * (l2(sparse.a) + l2(sparse.b))
    using sgd(lr = 0.05)
