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

# 0/1 loss: the fraction of scores with another sign than the target, -1 or 1 (section 3.2); its derivative is zero.
fn zero_one(score: [...], target: [...]) -> loss: []:
    loss = mean[...](0.0 if sign(score[...]) == target[...] else 1.0)

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

# Minus the log-density of a normal variable whose mean and deviation a model gives side by side (section 3.2.2).
fn heteroscedastic_nll(head: [..., 2], target: [...]) -> loss: []:
    loss = -mean[...](normal_log_density(target[...], head[..., 0], abs(head[..., 1])))

# ---- penalties

# The logarithm of a length: a prior that falls with the norm of the weights (section 3.3).
fn log_norm(w: [...]) -> penalty: []:
    penalty = log(sqrt(sum[...](w[...]^2)))

# The sum of squares.
fn l2(w: [...]) -> penalty: []:
    penalty = sum[...](w[...]^2)

# The sum of absolute values.
fn l1(w: [...]) -> penalty: []:
    penalty = sum[...](abs(w[...]))

# The sum of the lengths of rows, each weighted by the root of its size: for parameters that vanish in groups.
fn group_l2(w: [G, K]) -> penalty: []:
    penalty = sqrt(K) * sum[g](sqrt(sum[k](w[g, k]^2)))

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

# Of the examples that a positive logit decides to be 1, the fraction that are; 0 where there are none.
fn precision(logit: [...], target: [...]) -> value: []:
    chosen = sum[...](1.0 if logit[...] > 0 else 0.0)
    right = sum[...](1.0 if logit[...] > 0 and target[...] > 0.5 else 0.0)
    value = right / chosen if chosen > 0 else 0

# Of the examples that are 1, the fraction whose logit is positive; 0 where there are none.
fn recall(logit: [...], target: [...]) -> value: []:
    there = sum[...](1.0 if target[...] > 0.5 else 0.0)
    right = sum[...](1.0 if logit[...] > 0 and target[...] > 0.5 else 0.0)
    value = right / there if there > 0 else 0

# The harmonic mean of precision and recall.
fn f1(logit: [...], target: [...]) -> value: []:
    both = sum[...]((1.0 if logit[...] > 0 else 0.0) + (1.0 if target[...] > 0.5 else 0.0))
    right = sum[...](1.0 if logit[...] > 0 and target[...] > 0.5 else 0.0)
    value = 2 * right / both if both > 0 else 0

# The mean over all classes of the F1 of each class against all others; 0 for a class that neither occurs nor is chosen.
fn macro_f1(logits: [..., K], label: i32[...] < K) -> value: []:
    choice[...] = argmax[k](logits[..., k])
    both[k: K] = sum[...]((1.0 if choice[...] == k else 0.0) + (1.0 if label[...] == k else 0.0))
    right[k: K] = sum[...](1.0 if choice[...] == k and label[...] == k else 0.0)
    value = mean[k](2 * right[k] / both[k] if both[k] > 0 else 0)

# The class with the least expected cost: cost[i, j] is that of choosing i where j is true (section 4.3.3).
fn cheapest(p: [..., K], cost: [K, K]) -> choice: i64[...]:
    choice[...] = argmin[i](sum[j](cost[i, j] * p[..., j]))

# For each of equal bins of confidence: how many examples are in it, how sure and how often right the model is there
# (section 4.3.4); 0 in bins without examples.
fn reliability(
    p: [N, K], label: i32[N] < K, bins: size = 10
) -> (count: [B = bins], confidence: [B], accuracy: [B]):
    sure[n] = max[k](p[n, k])
    right[n] = 1.0 if argmax[k](p[n, k]) == label[n] else 0.0
    bin[n] = clip(i32(floor(sure[n] * bins)), 0, bins - 1)
    count[bin[n]] += 1
    confident[bin[n]] += sure[n]
    accurate[bin[n]] += right[n]
    confidence[b] = confident[b] / count[b] if count[b] > 0 else 0
    accuracy[b] = accurate[b] / count[b] if count[b] > 0 else 0

# How far confidence is from accuracy, averaged over all examples by bins (section 4.3.4).
fn calibration_error(p: [N, K], label: i32[N] < K, bins: size = 10) -> error: []:
    count, confidence, accuracy = reliability(p, label, bins)
    error = sum[b](count[b] * abs(accuracy[b] - confidence[b])) / N

# How far confidence is from accuracy in the worst bin (section 4.3.4).
fn maximum_calibration_error(p: [N, K], label: i32[N] < K, bins: size = 10) -> error: []:
    count, confidence, accuracy = reliability(p, label, bins)
    error = max[b](abs(accuracy[b] - confidence[b]))

# The largest probability that a prediction set may ask of its classes, so that the right one is in it with
# probability 1 - alpha: found on held-out examples (section 4.3.4).
fn conformal_threshold(p: [N, K], label: i32[N] < K, alpha = 0.1) -> gamma: []:
    right[n] = p[n, label[n]]
    ordered[n] = sort[n](right[n])
    gone = floor(alpha * (N + 1))
    gamma = sum[n](ordered[n] if n + 1 == gone else 0)

# The classes that are probable enough (section 4.3.4).
fn prediction_set(p: [..., K], gamma: []) -> member: bool[..., K]:
    member[..., k] = p[..., k] >= gamma

# The fraction of units that are 0 for all examples (section 5.4).
fn dead_units(h: [N, K]) -> fraction: []:
    fraction = mean[k](1.0 if all[n](h[n, k] == 0) else 0.0)
