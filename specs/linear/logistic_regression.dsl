# Logistic regression: the log-odds of class 1 are linear in x (chapter 4).
# Targets must be 0 or 1; a penalty keeps the weights small.

model logistic_regression(x: f32[N, features], features = 2) -> logit: [N]:
    param w: [features] ~ zeros
    param b: [] = 0
    logit[n] = x[n, i] * w[i] + b

train logistic_regression(x, target: binary f32[N], batch = 32, epochs = 50):
    logit = logistic_regression(x)
    minimize binary_cross_entropy(logit, target) + 1e-3 * l2(logistic_regression.w)
    metric accuracy = binary_accuracy(logit, target)
    using momentum(lr = 0.1, decay = 0.9)
