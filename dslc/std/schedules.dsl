# Schedules: what a learning rate is multiplied by at a step, which counts from 1:
# `using adamw(lr = 1e-3 * linear_warmup(step, 100) * cosine_decay(step, 2000))`.

# From 1 / steps at the first step in a line to 1 at step `steps`, and 1 from there on.
fn linear_warmup(step, steps) = min(1, step / steps)

# From 1 at the first step in a line to `last`, which is reached after `steps` steps and kept.
fn linear_decay(step, steps, last = 0.0) = 1 - (1 - last) * min(1, (step - 1) / steps)

# From 1 at the first step along half a cosine to `last`, which is reached after `steps` steps and kept.
fn cosine_decay(step, steps, last = 0.0) = (
    last + (1 - last) * (1 + cos(pi * min(1, (step - 1) / steps))) / 2
)

# Multiplied by `factor` after each `every` steps.
fn step_decay(step, every, factor = 0.1) = factor^floor((step - 1) / every)

# Multiplied by `factor` after each step.
fn exponential_decay(step, factor = 0.999) = factor^(step - 1)

# In a line to 1 at step `steps`, then as 1 / sqrt(step): the schedule of the first transformers.
fn inverse_sqrt_decay(step, steps) = min(step / steps, sqrt(steps / step))
