# Activations: functions of one number, functions along an axis, and layers built from gates.
# The formulas are those of a textbook; the compiler computes them without overflow.

# ---- functions of one number

# Slope 1 above zero and a small slope below it.
fn leaky_relu(x, slope = 0.01) = x if x >= 0 else slope * x

# The identity above zero, an exponential that levels off at -alpha below it.
fn elu(x, alpha = 1.0) = x if x >= 0 else alpha * (exp(x) - 1)

# The scaled ELU whose constants keep zero mean and unit variance through a deep stack.
fn selu(x) = 1.0507009873554805 * elu(x, 1.6732632423543772)

# x times the probability that a standard normal variable lies below x.
fn gelu(x) = x * (1 + erf(x / sqrt(2))) / 2

# The approximation of gelu by a hyperbolic tangent.
fn gelu_tanh(x) = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2

# x times its own sigmoid.
fn silu(x) = x * sigmoid(x)

# silu with a slope beta, which may be a trained value.
fn swish(x, beta) = x * sigmoid(beta * x)

# A smooth relu: the integral of the sigmoid.
fn softplus(x) = log(1 + exp(x))

# The logarithm of the sigmoid.
fn log_sigmoid(x) = log(sigmoid(x))

# The inverse of the sigmoid: the log-odds of a probability.
fn logit(p) = log(p / (1 - p))

# x times the tanh of its softplus.
fn mish(x) = x * tanh(softplus(x))

# x / (1 + |x|): like tanh, with slower tails.
fn softsign(x) = x / (1 + abs(x))

# What tanh takes away from x.
fn tanh_shrink(x) = x - tanh(x)

# The identity cut off at -1 and 1.
fn hard_tanh(x) = clip(x, -1, 1)

# relu cut off at 6.
fn relu6(x) = clip(x, 0, 6)

# The straight line through the middle of the sigmoid, cut off at 0 and 1.
fn hard_sigmoid(x) = clip(x / 6 + 0.5, 0, 1)

# silu with the hard sigmoid.
fn hard_swish(x) = x * hard_sigmoid(x)

# relu, squared: its derivative has no jump.
fn squared_relu(x) = relu(x)^2

# 1 from zero on, 0 below; its derivative is zero.
fn heaviside(x) = 1.0 if x >= 0 else 0.0

# Rounds, but lets the gradient pass as if it did not (a straight-through estimator).
fn round_through(x) -> y:
    y = round(x)
    backward (dy) -> dx:
        dx = dy

# The logarithm of the sum of two exponentials.
fn logaddexp(a, b) = log(exp(a) + exp(b))

# ---- functions along an axis: softmax[k](x[n, k])

# The logarithm of the sum of exponentials: a smooth maximum.
fn logsumexp[k](x) = log(sum[k](exp(x)))

# Exponentials divided by their sum: positive weights that sum to 1.
fn softmax[k](x) = exp(x) / sum[k](exp(x))

# The logarithm of softmax.
fn log_softmax[k](x) = log(softmax[k](x))

# The mean squared distance from the mean (the biased variance).
fn var[k](x) = mean[k]((x - mean[k](x))^2)

# The standard deviation, the square root of `var`.
fn std[k](x) = sqrt(var[k](x))

# Shifted and scaled to mean 0 and variance 1.
fn standardize[k](x, eps = 1e-5) = (x - mean[k](x)) / sqrt(var[k](x) + eps)

# The Euclidean length.
fn norm[k](x) = sqrt(sum[k](x^2))

# Scaled to length 1.
fn normalize[k](x, eps = 1e-12) = x / max(norm[k](x), eps)

# The inner product.
fn dot[k](x, y) = sum[k](x * y)

# The cosine of the angle between two vectors.
fn cosine[k](x, y) = dot[k](x, y) / (norm[k](x) * norm[k](y))

# The entropy of a distribution, with 0 log 0 = 0.
fn entropy[k](p) = -sum[k](p * log(p) if p > 0 else 0)

# ---- layers

# leaky_relu with one trained slope per channel.
layer prelu(x: [..., C]) -> y: [..., C]:
    param slope: [C] = 0.25
    y[..., c] = x[..., c] if x[..., c] >= 0 else slope[c] * x[..., c]

# Gated linear unit: one linear map of x, weighted by the sigmoid of another.
layer glu(x: [..., I], out: size) -> y: [..., O = out]:
    param V, W: [I, O] ~ glorot
    gate[..., o] = sigmoid(x[..., i] * V[i, o])
    y[..., o] = gate[..., o] * x[..., i] * W[i, o]

# Gated linear unit with silu in place of the sigmoid.
layer swiglu(x: [..., I], out: size) -> y: [..., O = out]:
    param V, W: [I, O] ~ glorot
    gate[..., o] = silu(x[..., i] * V[i, o])
    y[..., o] = gate[..., o] * x[..., i] * W[i, o]
