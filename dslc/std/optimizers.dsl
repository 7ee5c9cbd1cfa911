# Optimisers: what happens to one entry of a parameter, given its gradient.
# `step` counts from 1; `grad_norm` is the length of the whole gradient, over all parameters.

# Gradient descent, with optional weight decay.
optimizer sgd(lr = 0.01, weight_decay = 0.0):
    param <- param - lr * (grad + weight_decay * param)

# Gradient descent with a velocity that remembers past gradients.
optimizer momentum(lr = 0.01, decay = 0.9):
    slot v = 0
    v <- decay * v - lr * grad
    param <- param + v

# Momentum that looks ahead: the velocity after this step, seen from where it leads.
optimizer nesterov(lr = 0.01, decay = 0.9):
    slot v = 0
    v <- decay * v - lr * grad
    param <- param + decay * v - lr * grad

# Steps divided by the root of the sum of all squared gradients so far.
optimizer adagrad(lr = 0.01, eps = 1e-10):
    slot total = 0
    total <- total + grad^2
    param <- param - lr * grad / (sqrt(total) + eps)

# Steps divided by the root of a running mean of squared gradients.
optimizer rmsprop(lr = 1e-3, decay = 0.9, eps = 1e-8):
    slot v = 0
    v <- decay * v + (1 - decay) * grad^2
    param <- param - lr * grad / (sqrt(v) + eps)

# Adam: running means of the gradient and of its square, both corrected for their start at 0.
optimizer adam(lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8):
    slot m = 0, v = 0
    m <- beta1 * m + (1 - beta1) * grad
    v <- beta2 * v + (1 - beta2) * grad^2
    m_hat = m / (1 - beta1^step)
    v_hat = v / (1 - beta2^step)
    param <- param - lr * m_hat / (sqrt(v_hat) + eps)

# Adam with weight decay kept apart from the gradient.
optimizer adamw(lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01):
    slot m = 0, v = 0
    m <- beta1 * m + (1 - beta1) * grad
    v <- beta2 * v + (1 - beta2) * grad^2
    m_hat = m / (1 - beta1^step)
    v_hat = v / (1 - beta2^step)
    param <- param - lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * param)

# Steps of equal size in every entry: the sign of a blend of momentum and gradient.
optimizer lion(lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0):
    slot m = 0
    direction = sign(beta1 * m + (1 - beta1) * grad)
    m <- beta2 * m + (1 - beta2) * grad
    param <- param - lr * (direction + weight_decay * param)

# Momentum with the gradient scaled down to length `clip` when it is longer.
optimizer clipped_momentum(lr = 0.01, decay = 0.9, clip = 1.0):
    slot v = 0
    g = grad * min(1, clip / max(grad_norm, 1e-12))
    v <- decay * v - lr * g
    param <- param + v

# AdamW with the gradient scaled down to length `clip` when it is longer.
optimizer clipped_adamw(
    lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01, clip = 1.0
):
    slot m = 0, v = 0
    g = grad * min(1, clip / max(grad_norm, 1e-12))
    m <- beta1 * m + (1 - beta1) * g
    v <- beta2 * v + (1 - beta2) * g^2
    m_hat = m / (1 - beta1^step)
    v_hat = v / (1 - beta2^step)
    param <- param - lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * param)
