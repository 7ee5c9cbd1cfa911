# Convolutions and pooling, channels last: x[n, t, c] or x[n, h, w, c].
# A window of `kernel` taps, `dilation` apart, moves by `stride` over x, which has `pad` zeros on
# each side.

# Convolution over one axis.
layer conv1d(
    x: [N, T, C], out: size, kernel = 3, stride = 1, pad = 0, dilation = 1, bias = true
) -> y: [
    N, P = (T + 2*pad - dilation*(kernel - 1) - 1) // stride + 1, O = out
] where T + 2*pad > dilation * (kernel - 1):
    param K: [kernel, C, O] ~ he
    y[n, p, o] = (x[n, stride*p + dilation*u - pad, c] else 0) * K[u, c, o]
    if bias:
        param b: [O] ~ zeros
        y[n, p, o] = y[n, p, o] + b[o]

# Convolution over two axes.
layer conv2d(
    x: [N, H, W, C], out: size, kernel = 3, stride = 1, pad = 0, dilation = 1, bias = true
) -> y: [
    N,
    P = (H + 2*pad - dilation*(kernel - 1) - 1) // stride + 1,
    Q = (W + 2*pad - dilation*(kernel - 1) - 1) // stride + 1,
    O = out,
] where H + 2*pad > dilation * (kernel - 1), W + 2*pad > dilation * (kernel - 1):
    param K: [kernel, kernel, C, O] ~ he
    y[n, p, q, o] = (
        K[u, v, c, o] * (x[n, stride*p + dilation*u - pad, stride*q + dilation*v - pad, c] else 0)
    )
    if bias:
        param b: [O] ~ zeros
        y[n, p, q, o] = y[n, p, q, o] + b[o]

# Convolution over three axes, with stride and dilation 1.
layer conv3d(
    x: [N, D, H, W, C], out: size, kernel = 3, pad = 0, bias = true
) -> y: [
    N, D + 2*pad - kernel + 1, H + 2*pad - kernel + 1, W + 2*pad - kernel + 1, O = out
] where D + 2*pad >= kernel, H + 2*pad >= kernel, W + 2*pad >= kernel:
    param K: [kernel, kernel, kernel, C, O] ~ he
    y[n, p, q, r, o] = (x[n, p + u - pad, q + v - pad, r + w - pad, c] else 0) * K[u, v, w, c, o]
    if bias:
        param b: [O] ~ zeros
        y[n, p, q, r, o] = y[n, p, q, r, o] + b[o]

# Each channel convolved on its own over one axis.
layer depthwise_conv1d(
    x: [N, T, C], kernel = 3, stride = 1, pad = 1
) -> y: [N, P = (T + 2*pad - kernel) // stride + 1, C] where T + 2*pad >= kernel:
    param K: [kernel, C] ~ uniform(-1 / sqrt(kernel), 1 / sqrt(kernel))
    param b: [C] ~ zeros
    y[n, p, c] = (x[n, stride*p + u - pad, c] else 0) * K[u, c] + b[c]

# Each channel convolved on its own over two axes.
layer depthwise_conv2d(
    x: [N, H, W, C], kernel = 3, stride = 1, pad = 1
) -> y: [
    N, P = (H + 2*pad - kernel) // stride + 1, Q = (W + 2*pad - kernel) // stride + 1, C
] where H + 2*pad >= kernel, W + 2*pad >= kernel:
    param K: [kernel, kernel, C] ~ uniform(-1.0 / kernel, 1.0 / kernel)
    param b: [C] ~ zeros
    y[n, p, q, c] = (x[n, stride*p + u - pad, stride*q + v - pad, c] else 0) * K[u, v, c] + b[c]

# Channels split into groups, each group convolved to its share of the outputs.
layer group_conv2d(
    x: [N, H, W, C], out: size, groups: int, kernel = 3, stride = 1, pad = 1
) -> y: [
    N, P = (H + 2*pad - kernel) // stride + 1, Q = (W + 2*pad - kernel) // stride + 1, O = out
] where C % groups == 0, out % groups == 0, H + 2*pad >= kernel, W + 2*pad >= kernel:
    param K: [kernel, kernel, G = groups, I = C / groups, J = out / groups] ~ he
    param b: [O] ~ zeros
    z[n, p: P, q: Q, g, j] = (
        K[u, v, g, i, j] * (x[n, stride*p + u - pad, stride*q + v - pad, (g i)] else 0)
    )
    y[n, p, q, (g j)] = z[n, p, q, g, j]
    y[n, p, q, o] = y[n, p, q, o] + b[o]

# A depthwise convolution followed by a map of the channels.
layer separable_conv2d(
    x: [N, H, W, C], out: size, kernel = 3, stride = 1, pad = 1
) -> y: [
    N, P = (H + 2*pad - kernel) // stride + 1, Q = (W + 2*pad - kernel) // stride + 1, O = out
] where H + 2*pad >= kernel, W + 2*pad >= kernel:
    y = x |> depthwise_conv2d(kernel, stride, pad) |> dense(out)

# Convolution that sees only the present and the past; the length is kept.
layer causal_conv1d(
    x: [N, T, C], out: size, kernel = 2, dilation = 1, bias = true
) -> y: [N, T, O = out]:
    param K: [kernel, C, O] ~ he
    y[n, t, o] = (x[n, t - dilation*u, c] else 0) * K[u, c, o]
    if bias:
        param b: [O] ~ zeros
        y[n, t, o] = y[n, t, o] + b[o]

# Causal convolution of each channel on its own.
layer causal_depthwise_conv1d(x: [N, T, C], kernel = 4) -> y: [N, T, C]:
    param K: [kernel, C] ~ uniform(-1 / sqrt(kernel), 1 / sqrt(kernel))
    param b: [C] ~ zeros
    y[n, t, c] = (x[n, t - u, c] else 0) * K[u, c] + b[c]

# The largest value of each window, one axis.
fn max_pool1d(
    x: [N, T, C], window: int = 2, stride: int = 2
) -> y: [N, P = (T - window) // stride + 1, C] where T >= window:
    y[n, p, c] = max[u: window](x[n, stride*p + u, c])

# The largest value of each window, two axes.
fn max_pool2d(
    x: [N, H, W, C], window: int = 2, stride: int = 2
) -> y: [
    N, P = (H - window) // stride + 1, Q = (W - window) // stride + 1, C
] where H >= window, W >= window:
    y[n, p, q, c] = max[u: window, v: window](x[n, stride*p + u, stride*q + v, c])

# The mean of each window, one axis.
fn avg_pool1d(
    x: [N, T, C], window: int = 2, stride: int = 2
) -> y: [N, P = (T - window) // stride + 1, C] where T >= window:
    y[n, p, c] = mean[u: window](x[n, stride*p + u, c])

# The mean of each window, two axes.
fn avg_pool2d(
    x: [N, H, W, C], window: int = 2, stride: int = 2
) -> y: [
    N, P = (H - window) // stride + 1, Q = (W - window) // stride + 1, C
] where H >= window, W >= window:
    y[n, p, q, c] = mean[u: window, v: window](x[n, stride*p + u, stride*q + v, c])

# The mean of each channel over all positions.
fn global_avg_pool(x: [N, ..., C]) -> y: [N, C]:
    y[n, c] = mean[...](x[n, ..., c])

# The maximum of each channel over all positions.
fn global_max_pool(x: [N, ..., C]) -> y: [N, C]:
    y[n, c] = max[...](x[n, ..., c])

# Each pixel repeated to a square of factor x factor pixels.
fn upsample2d(x: [N, H, W, C], factor: int = 2) -> y: [N, H * factor, W * factor, C]:
    y[n, (h a), (w b), c] = x[n, h, w, c] where a = factor, b = factor

# An image cut into square patches, each laid out as one row.
fn patches(
    x: [N, H, W, C], side: size
) -> y: [N, (H / side) * (W / side), side * side * C] where H % side == 0, W % side == 0:
    y[n, (h w), (a b c)] = x[n, (h a), (w b), c] where a = side, b = side
