# Probability: densities, distribution functions, and the rules for tables of probabilities (appendix A).

# ---- densities, by their logarithms

# The log-density of a normal variable with mean mu and deviation sigma (sections 4.1.1 and A.3).
fn normal_log_density(x, mu = 0.0, sigma = 1.0) = (
    -log(sigma) - log(2 * pi) / 2 - ((x - mu) / sigma)^2 / 2
)

# The probability that a standard normal variable lies below z (section A.2).
fn normal_below(z) = erfc(-z / sqrt(2)) / 2

# The number below which a standard normal variable lies with probability p: the probit (section 4.3.1).
fn normal_quantile(p) = sqrt(2) * erfinv(2 * p - 1)

# The log-probability of x, 0 or 1, where p is that of 1 (section A.3), with 0 log 0 = 0.
fn bernoulli_log_density(x, p) = (
    (x * log(p) if x > 0 else 0) + ((1 - x) * log(1 - p) if x < 1 else 0)
)

# The log-probability of a class, given as a one-hot vector x (section A.3), with 0 log 0 = 0.
fn categorical_log_density[k](x, p) = sum[k](x * log(p) if x > 0 else 0)

# The log-density of a normal vector with mean mu and a full covariance matrix (section A.3).
fn multivariate_normal_log_density(x: [..., D], mu: [D], covariance: [D, D]) -> log_p: [...]:
    c[..., i] = x[..., i] - mu[i]
    z[..., :] = solve(covariance, c[..., :])
    log_p[...] = -(D * log(2 * pi) + logdet(covariance) + sum[i](c[..., i] * z[..., i])) / 2

# ---- tables of probabilities

# The expectation of f, which has the value f[k] with probability p[k] (section A.4).
fn expectation[k](p, f) = sum[k](p * f)

# What is left of a joint table p(r, w) when r is summed away: p(w), the sum rule (section A.1).
fn marginal(joint: [R, W]) -> p: [W]:
    p[w] = sum[r](joint[r, w])

# The table p(r | w) of a joint table p(r, w), by the product rule (section A.1).
fn conditional(joint: [R, W]) -> p: [R, W]:
    p[r, w] = joint[r, w] / sum[r](joint[r, w])

# The rule of Bayes: p(r | w) from p(w | r) and p(r) (sections 3.3 and A.1).
fn bayes(likelihood: [R, W], prior: [R]) -> posterior: [R, W]:
    evidence[w] = likelihood[r, w] * prior[r]
    posterior[r, w] = likelihood[r, w] * prior[r] / evidence[w]
