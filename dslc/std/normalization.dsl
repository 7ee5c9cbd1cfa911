# Normalisation: subtract a mean, divide by a deviation, then a trained scale and shift.
# The layers differ in the axes over which the mean is taken.

# Over the last axis: each token or row on its own. `far` is for entries whose squares overflow: beyond 1e19 in float32.
layer layer_norm(x: [..., E], eps = 1e-5, far = false) -> y: [..., E]:
    param scale: [E] ~ ones
    param shift: [E] ~ zeros
    if far:
        top[...] = stop_grad(max(1, max[e](abs(x[..., e]))))
        u[..., e] = x[..., e] / top[...]
        mu[...] = mean[e](u[..., e])
        variance[...] = mean[e]((u[..., e] - mu[...])^2)
        y[..., e] = (
            scale[e] * (u[..., e] - mu[...]) / sqrt(variance[...] + eps / top[...]^2) + shift[e]
        )
    else:
        mu[...] = mean[e](widened(x[..., e]))
        variance[...] = mean[e]((x[..., e] - mu[...])^2)
        y[..., e] = scale[e] * (x[..., e] - mu[...]) / sqrt(variance[...] + eps) + shift[e]

# Over the last axis, dividing by the root mean square; nothing is subtracted. `far` is for squares that overflow.
layer rms_norm(x: [..., E], eps = 1e-6, far = false) -> y: [..., E]:
    param scale: [E] ~ ones
    if far:
        top[...] = stop_grad(max(1, max[e](abs(x[..., e]))))
        u[..., e] = x[..., e] / top[...]
        square_mean[...] = mean[e](u[..., e]^2)
        y[..., e] = scale[e] * u[..., e] / sqrt(square_mean[...] + eps / top[...]^2)
    else:
        square_mean[...] = mean[e](widened(x[..., e])^2)
        y[..., e] = scale[e] * x[..., e] / sqrt(square_mean[...] + eps)

# Over all axes but the last, so over the batch (section 9.3.2: the columns of a matrix; the channels of images). What
# inference divides by depends on `statistics`: "running" for exponential averages of what training has seen, "dataset"
# for the mean and the variance of all that it has seen since its states began, so that one more pass over the data
# with trained weights gives those of the data set, and "fixed" for states that training uses, too, and leaves alone.
layer batch_norm(x: [..., C], momentum = 0.9, eps = 1e-5, statistics = "running") -> y: [..., C]:
    param scale: [C] ~ ones
    param shift: [C] ~ zeros
    state running_mean: [C] = 0
    state running_var: [C] = 1
    if statistics == "fixed":
        mu = running_mean
        variance = running_var
    else:
        if statistics == "dataset":
            state count: [C] = 0
        training:
            mu[c] = mean[...](widened(x[..., c]))
            variance[c] = mean[...]((x[..., c] - mu[c])^2)
            if statistics == "dataset":
                seen[c] = sum[...](x[..., c]^0)
                count <- count + seen
                share = seen / count
                between = share * (1 - share) * (mu - running_mean)^2
                running_var <- (1 - share) * running_var + share * variance + between
                running_mean <- (1 - share) * running_mean + share * mu
            else:
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
    mu[n, c] = mean[...](widened(x[n, ..., c]))
    variance[n, c] = mean[...]((x[n, ..., c] - mu[n, c])^2)
    y[n, ..., c] = scale[c] * (x[n, ..., c] - mu[n, c]) / sqrt(variance[n, c] + eps) + shift[c]

# Over the positions of each example and the channels of a group.
layer group_norm(x: [N, ..., C], groups: int, eps = 1e-5) -> y: [N, ..., C] where C % groups == 0:
    param scale: [C] ~ ones
    param shift: [C] ~ zeros
    z[n, ..., g, k] = x[n, ..., (g k)] where g = groups
    mu[n, g] = mean[..., k](widened(z[n, ..., g, k]))
    variance[n, g] = mean[..., k]((z[n, ..., g, k] - mu[n, g])^2)
    u[n, ..., (g k)] = (z[n, ..., g, k] - mu[n, g]) / sqrt(variance[n, g] + eps)
    y[n, ..., c] = scale[c] * u[n, ..., c] + shift[c]

# Over all of each example, with a scale and a shift for each of its entries (section 9.3.3, variant A of layer
# normalisation). Statistics over any other axes are `standardize` with those axes in its brackets.
layer example_norm(x: [N, ..., C], eps = 1e-5) -> y: [N, ..., C]:
    param scale: [..., C] ~ ones
    param shift: [..., C] ~ zeros
    mu[n] = mean[..., c](widened(x[n, ..., c]))
    variance[n] = mean[..., c]((x[n, ..., c] - mu[n])^2)
    y[n, ..., c] = scale[..., c] * (x[n, ..., c] - mu[n]) / sqrt(variance[n] + eps) + shift[..., c]

# Each entry divided by a power of the squares of its neighbours along the channels, `window` of them in all (AlexNet).
fn local_response_norm(
    x: [..., C], window: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 2.0
) -> y: [..., C]:
    near[..., c: C] = sum[d: window]((x[..., c + d - window//2] else 0)^2)
    y[..., c] = x[..., c] / (k + alpha * near[..., c])^beta
