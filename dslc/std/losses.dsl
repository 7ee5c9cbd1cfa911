# Losses, penalties and metrics. A loss is the mean over all examples, however many axes they have.

# ---- classification

# Minus the log-probability of the right class, from logits.
fn cross_entropy(logits: [..., K], label: i32[...] < K) -> loss: []:
    loss = mean[...](logsumexp[k](logits[..., k]) - logits[..., label[...]])

# Cross-entropy from logits where the target is a distribution over the classes.
fn soft_cross_entropy(logits: [..., K], target: [..., K]) -> loss: []:
    loss = -mean[...](sum[k](target[..., k] * log_softmax[k](logits[..., k])))

# Minus the log-probability of the right class, from log-probabilities.
fn nll(log_p: [..., K], label: i32[...] < K) -> loss: []:
    loss = -mean[...](log_p[..., label[...]])

# Cross-entropy of two classes, from logits; target is 0 or 1, or a probability.
fn binary_cross_entropy(logit: [...], target: [...]) -> loss: []:
    loss = -mean[...](
        target[...] * log(sigmoid(logit[...])) + (1 - target[...]) * log(1 - sigmoid(logit[...]))
    )

# Cross-entropy of two classes, from probabilities.
fn binary_cross_entropy_p(p: [...], target: [...]) -> loss: []:
    loss = -mean[...](target[...] * log(p[...]) + (1 - target[...]) * log(1 - p[...]))

# Cross-entropy that counts confident examples less: (1 - p)^gamma times it.
fn focal(logits: [..., K], label: i32[...] < K, gamma = 2.0) -> loss: []:
    log_p[..., k] = log_softmax[k](logits[..., k])
    right[...] = log_p[..., label[...]]
    loss = -mean[...]((1 - exp(right[...]))^gamma * right[...])

# Hinge loss: how far the margin sign * score stays below 1; sign is -1 or 1.
fn hinge(score: [...], sign: [...]) -> loss: []:
    loss = mean[...](relu(1 - sign[...] * score[...]))

# Brier score: squared distance between the probabilities and the one-hot label.
fn brier(p: [..., K], label: i32[...] < K) -> loss: []:
    loss = mean[...](sum[k]((p[..., k] - (1.0 if k == label[...] else 0.0))^2))

# Kullback-Leibler divergence of q from p, with 0 log 0 = 0.
fn kl_divergence(p: [..., K], q: [..., K]) -> loss: []:
    loss = mean[...](sum[k](p[..., k] * log(p[..., k] / q[..., k]) if p[..., k] > 0 else 0))

# ---- regression

# The mean squared error.
fn mean_squared_error(prediction: [...], target: [...]) -> loss: []:
    loss = mean[...]((prediction[...] - target[...])^2)

# The mean absolute error.
fn mean_absolute_error(prediction: [...], target: [...]) -> loss: []:
    loss = mean[...](abs(prediction[...] - target[...]))

# Squared within delta of the target, linear beyond it.
fn huber(prediction: [...], target: [...], delta = 1.0) -> loss: []:
    gap[...] = abs(prediction[...] - target[...])
    loss = mean[...](gap[...]^2 / 2 if gap[...] <= delta else delta * (gap[...] - delta / 2))

# Minus the log-density of a normal variable with the given mean and log-variance.
fn gaussian_nll(mu: [...], log_var: [...], target: [...]) -> loss: []:
    loss = mean[...](
        (log(2 * pi) + log_var[...] + (target[...] - mu[...])^2 * exp(-log_var[...])) / 2
    )

# ---- penalties

# The sum of squares.
fn l2(w: [...]) -> penalty: []:
    penalty = sum[...](w[...]^2)

# The sum of absolute values.
fn l1(w: [...]) -> penalty: []:
    penalty = sum[...](abs(w[...]))

# ---- metrics

# The fraction of examples whose largest logit is that of the right class.
fn accuracy(logits: [..., K], label: i32[...] < K) -> value: []:
    value = mean[...](1.0 if argmax[k](logits[..., k]) == label[...] else 0.0)

# The fraction of examples whose right class is among the `best` largest logits.
fn top_accuracy(logits: [N, K], label: i32[N] < K, best: int = 5) -> value: [] where best <= K:
    p[n, j], id[n, j] = top_k[k -> j: best](logits[n, k])
    value = mean[n](1.0 if any[j](id[n, j] == label[n]) else 0.0)

# The fraction of right decisions when the sign of the logit decides between 0 and 1.
fn binary_accuracy(logit: [...], target: [...]) -> value: []:
    value = mean[...](1.0 if (logit[...] > 0) == (target[...] > 0.5) else 0.0)
