# Normalisation: subtract a mean, divide by a deviation, then a trained scale and shift.
# The layers differ in the axes over which the mean is taken.

# Over the last axis: each token or row on its own.
layer layer_norm(x: [..., E], eps = 1e-5) -> y: [..., E]:
    param scale: [E] ~ ones
    param shift: [E] ~ zeros
    mu[...] = mean[e](x[..., e])
    variance[...] = mean[e]((x[..., e] - mu[...])^2)
    y[..., e] = scale[e] * (x[..., e] - mu[...]) / sqrt(variance[...] + eps) + shift[e]

# Over the last axis, dividing by the root mean square; nothing is subtracted.
layer rms_norm(x: [..., E], eps = 1e-6) -> y: [..., E]:
    param scale: [E] ~ ones
    square_mean[...] = mean[e](x[..., e]^2)
    y[..., e] = scale[e] * x[..., e] / sqrt(square_mean[...] + eps)

# Over all axes but the last, so over the batch; at inference by running statistics.
layer batch_norm(x: [..., C], momentum = 0.9, eps = 1e-5) -> y: [..., C]:
    param scale: [C] ~ ones
    param shift: [C] ~ zeros
    state running_mean: [C] = 0
    state running_var: [C] = 1
    training:
        mu[c] = mean[...](x[..., c])
        variance[c] = mean[...]((x[..., c] - mu[c])^2)
        running_mean <- momentum * running_mean + (1 - momentum) * mu
        running_var <- momentum * running_var + (1 - momentum) * variance
    inference:
        mu = running_mean
        variance = running_var
    y[..., c] = scale[c] * (x[..., c] - mu[c]) / sqrt(variance[c] + eps) + shift[c]

# Over the positions of each example and channel.
layer instance_norm(x: [N, ..., C], eps = 1e-5) -> y: [N, ..., C]:
    param scale: [C] ~ ones
    param shift: [C] ~ zeros
    mu[n, c] = mean[...](x[n, ..., c])
    variance[n, c] = mean[...]((x[n, ..., c] - mu[n, c])^2)
    y[n, ..., c] = scale[c] * (x[n, ..., c] - mu[n, c]) / sqrt(variance[n, c] + eps) + shift[c]

# Over the positions of each example and the channels of a group.
layer group_norm(x: [N, H, W, C], groups: int, eps = 1e-5) -> y: [N, H, W, C] where C % groups == 0:
    param scale: [C] ~ ones
    param shift: [C] ~ zeros
    z[n, h, w, g, k] = x[n, h, w, (g k)] where g = groups
    mu[n, g] = mean[h, w, k](z[n, h, w, g, k])
    variance[n, g] = mean[h, w, k]((z[n, h, w, g, k] - mu[n, g])^2)
    u[n, h, w, (g k)] = (z[n, h, w, g, k] - mu[n, g]) / sqrt(variance[n, g] + eps)
    y[n, h, w, c] = scale[c] * u[n, h, w, c] + shift[c]
