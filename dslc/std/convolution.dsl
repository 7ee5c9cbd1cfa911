# Convolutions, channels last: x[n, t, c], x[n, h, w, c] or x[n, d, h, w, c] (chapter 7).
# A window of `kernel` taps, `dilation` apart, moves by `stride` over x, which has `pad` zeros on
# each side. With `same`, there are as many zeros as ceil(size / stride) windows need; an odd one
# stands behind.
# `pad2d` puts zeros on some sides alone; `channels_first` takes any of these layers to x[n, c, h, w].

# How many places a window of `kernel` taps has on an axis; with `ceil` the last one may stick out behind.
fn window_count(
    length, kernel: int, stride: int, pad: int, dilation: int, same: bool, ceil: bool = false
) = (
    (length - 1) // stride + 1
    if same
    else min(
        (length + 2 * pad - dilation * (kernel - 1) + stride - 2) // stride,
        (length + pad - 1) // stride,
    )
    + 1
    if ceil
    else (length + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
)

# How far the first window begins in front of the axis.
fn window_start(length, kernel: int, stride: int, pad: int, dilation: int, same: bool) = (
    max(0, (length - 1) // stride * stride + dilation * (kernel - 1) + 1 - length) // 2
    if same
    else pad
)

# Convolution over one axis (equation 8.1).
layer conv1d(
    x: [N, T, C],
    out: size,
    kernel = 3,
    stride = 1,
    pad = 0,
    dilation = 1,
    bias = true,
    same = false,
) -> y: [
    N, P = window_count(T, kernel, stride, pad, dilation, same), O = out
] where T + 2*pad > (0 if same else dilation * (kernel - 1)):
    param K: [kernel, C, O] ~ he
    y[n, p, o] = sum[u, c](
        K[u, c, o]
        * (
            x[n, stride*p + dilation*u - window_start(T, kernel, stride, pad, dilation, same), c]
            else 0
        ),
    )
    if bias:
        param b: [O] ~ zeros
        y[n, p, o] = y[n, p, o] + b[o]

# Convolution over two axes (equation 7.7).
layer conv2d(
    x: [N, H, W, C],
    out: size,
    kernel = 3,
    stride = 1,
    pad = 0,
    dilation = 1,
    bias = true,
    same = false,
) -> y: [
    N,
    P = window_count(H, kernel, stride, pad, dilation, same),
    Q = window_count(W, kernel, stride, pad, dilation, same),
    O = out,
] where H + 2*pad > (0 if same else dilation * (kernel - 1)), (
    W + 2*pad > (0 if same else dilation * (kernel - 1))
):
    param K: [kernel, kernel, C, O] ~ he
    y[n, p, q, o] = sum[u, v, c](
        K[u, v, c, o]
        * (
            x[
                n,
                stride*p + dilation*u - window_start(H, kernel, stride, pad, dilation, same),
                stride*q + dilation*v - window_start(W, kernel, stride, pad, dilation, same),
                c,
            ]
            else 0
        ),
    )
    if bias:
        param b: [O] ~ zeros
        y[n, p, q, o] = y[n, p, q, o] + b[o]

# Convolution over three axes.
layer conv3d(
    x: [N, D, H, W, C],
    out: size,
    kernel = 3,
    stride = 1,
    pad = 0,
    dilation = 1,
    bias = true,
    same = false,
) -> y: [
    N,
    P = window_count(D, kernel, stride, pad, dilation, same),
    Q = window_count(H, kernel, stride, pad, dilation, same),
    R = window_count(W, kernel, stride, pad, dilation, same),
    O = out,
] where D + 2*pad > (0 if same else dilation * (kernel - 1)), (
    H + 2*pad > (0 if same else dilation * (kernel - 1))
), W + 2*pad > (0 if same else dilation * (kernel - 1)):
    param K: [kernel, kernel, kernel, C, O] ~ he
    y[n, p, q, r, o] = sum[u, v, w, c](
        K[u, v, w, c, o]
        * (
            x[
                n,
                stride*p + dilation*u - window_start(D, kernel, stride, pad, dilation, same),
                stride*q + dilation*v - window_start(H, kernel, stride, pad, dilation, same),
                stride*r + dilation*w - window_start(W, kernel, stride, pad, dilation, same),
                c,
            ]
            else 0
        ),
    )
    if bias:
        param b: [O] ~ zeros
        y[n, p, q, r, o] = y[n, p, q, r, o] + b[o]

# Each channel convolved on its own over one axis (section 7.2.2).
layer depthwise_conv1d(
    x: [N, T, C], kernel = 3, stride = 1, pad = 1, dilation = 1, same = false
) -> y: [
    N, P = window_count(T, kernel, stride, pad, dilation, same), C
] where T + 2*pad > (0 if same else dilation * (kernel - 1)):
    param K: [kernel, C] ~ uniform(-1 / sqrt(kernel), 1 / sqrt(kernel))
    param b: [C] ~ zeros
    y[n, p, c] = (
        b[c]
        + sum[u](
            K[u, c]
            * (
                x[
                    n,
                    stride*p + dilation*u - window_start(T, kernel, stride, pad, dilation, same),
                    c,
                ]
                else 0
            ),
        )
    )

# Each channel convolved on its own over two axes (section 7.2.2).
layer depthwise_conv2d(
    x: [N, H, W, C], kernel = 3, stride = 1, pad = 1, dilation = 1, same = false
) -> y: [
    N,
    P = window_count(H, kernel, stride, pad, dilation, same),
    Q = window_count(W, kernel, stride, pad, dilation, same),
    C,
] where H + 2*pad > (0 if same else dilation * (kernel - 1)), (
    W + 2*pad > (0 if same else dilation * (kernel - 1))
):
    param K: [kernel, kernel, C] ~ uniform(-1.0 / kernel, 1.0 / kernel)
    param b: [C] ~ zeros
    y[n, p, q, c] = (
        b[c]
        + sum[u, v](
            K[u, v, c]
            * (
                x[
                    n,
                    stride*p + dilation*u - window_start(H, kernel, stride, pad, dilation, same),
                    stride*q + dilation*v - window_start(W, kernel, stride, pad, dilation, same),
                    c,
                ]
                else 0
            ),
        )
    )

# Channels split into groups, each group convolved to its share of the outputs (section 7.2.2).
layer group_conv2d(
    x: [N, H, W, C],
    out: size,
    groups: int,
    kernel = 3,
    stride = 1,
    pad = 1,
    dilation = 1,
    bias = true,
    same = false,
) -> y: [
    N,
    P = window_count(H, kernel, stride, pad, dilation, same),
    Q = window_count(W, kernel, stride, pad, dilation, same),
    O = out,
] where C % groups == 0, out % groups == 0, H + 2*pad > (0 if same else dilation * (kernel - 1)), (
    W + 2*pad > (0 if same else dilation * (kernel - 1))
):
    param K: [kernel, kernel, G = groups, I = C / groups, J = out / groups] ~ he
    z[n, p: P, q: Q, g, j] = sum[u, v, i](
        K[u, v, g, i, j]
        * (
            x[
                n,
                stride*p + dilation*u - window_start(H, kernel, stride, pad, dilation, same),
                stride*q + dilation*v - window_start(W, kernel, stride, pad, dilation, same),
                (g i),
            ]
            else 0
        ),
    )
    y[n, p, q, (g j)] = z[n, p, q, g, j]
    if bias:
        param b: [O] ~ zeros
        y[n, p, q, o] = y[n, p, q, o] + b[o]

# A depthwise convolution followed by a map of the channels (section 7.2.2).
layer separable_conv2d(
    x: [N, H, W, C], out: size, kernel = 3, stride = 1, pad = 1, dilation = 1, same = false
) -> y: [
    N,
    P = window_count(H, kernel, stride, pad, dilation, same),
    Q = window_count(W, kernel, stride, pad, dilation, same),
    O = out,
] where H + 2*pad > (0 if same else dilation * (kernel - 1)), (
    W + 2*pad > (0 if same else dilation * (kernel - 1))
):
    y = x |> depthwise_conv2d(kernel, stride, pad, dilation, same) |> dense(out)

# The transpose of a strided convolution: each pixel adds a kernel of `kernel` pixels to a larger image.
layer conv_transpose2d(
    x: [N, H, W, C], out: size, kernel = 2, stride = 2, pad = 0, bias = true
) -> y: [
    N, P = (H - 1)*stride + kernel - 2*pad, Q = (W - 1)*stride + kernel - 2*pad, O = out
] where (H - 1)*stride + kernel > 2 * pad, (W - 1)*stride + kernel > 2 * pad:
    param K: [kernel, kernel, O, C] ~ he
    image[n: N, p: P, q: Q, o: O] = 0.0
    z[n, h: H, w: W, c] = (
        K[u, v, o, c] * (image[n, stride*h + u - pad, stride*w + v - pad, o] else 0)
    )
    y = vjp(z, image, x)
    if bias:
        param b: [O] ~ zeros
        y[n, p, q, o] = y[n, p, q, o] + b[o]

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

# Convolutions that keep the resolution, each with an activation, and then the largest value of 2 by 2 pixels: half
# the resolution (section 7.2.3). A network of them is a `for` over blocks.
layer conv_block(
    x: [N, H, W, C], out: size, convs = 1, kernel = 3, act = relu
) -> y: [N, H // 2, W // 2, out] where H >= 2, W >= 2, kernel % 2 == 1, convs >= 1:
    h = x
    for l in 0..convs:
        h = h |> conv2d(out, kernel, pad = kernel // 2) |> act
    y = max_pool2d(h)

# Any layer for channels last over x[n, c, ...]: `x |> channels_first(conv2d(64))`.
layer channels_first(x: [N, C, ...], body: layer) -> y:
    last[n, ..., c] = x[n, c, ...]
    z = body(last)
    y[n, c, ...] = z[n, ..., c]

# The kernel of one convolution without zeros around that is two of them, one after the other (section 7.2.1).
fn composed_kernel2d(first: [A, B, C, M], second: [D, E, M, O]) -> K: [A + D - 1, B + E - 1, C, O]:
    K[s, t, c, o] = (first[s - u, t - v, c, m] else 0) * second[u, v, m, o]
