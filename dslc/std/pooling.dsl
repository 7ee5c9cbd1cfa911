# Pooling, padding, and windows as rows, channels last: x[n, t, c], x[n, h, w, c] or x[n, d, h, w, c].
# Windows move as in convolution.dsl; those that stick out see the entries inside of x alone.

# How many entries of the window at place p are inside of the axis.
fn window_part(p, length, window: int, stride: int, pad: int, same: bool) = (
    min(length, stride * p + window - window_start(length, window, stride, pad, 1, same))
    - max(0, stride * p - window_start(length, window, stride, pad, 1, same))
)

# The largest value of each window, one axis.
fn max_pool1d(
    x: [N, T, C],
    window: int = 2,
    stride: int = 2,
    pad: int = 0,
    same: bool = false,
    ceil: bool = false,
) -> y: [
    N, P = window_count(T, window, stride, pad, 1, same, ceil), C
] where T + 2*pad >= (1 if same or ceil else window):
    if pad > 0 or same or ceil:
        y[n, p, c] = max[u: window](
            (x[n, stride*p + u - window_start(T, window, stride, pad, 1, same), c] else -inf)
        )
    else:
        y[n, p, c] = max[u: window](x[n, stride*p + u, c])

# The largest value of each window, two axes (section 7.2.1).
fn max_pool2d(
    x: [N, H, W, C],
    window: int = 2,
    stride: int = 2,
    pad: int = 0,
    same: bool = false,
    ceil: bool = false,
) -> y: [
    N,
    P = window_count(H, window, stride, pad, 1, same, ceil),
    Q = window_count(W, window, stride, pad, 1, same, ceil),
    C,
] where H + 2*pad >= (1 if same or ceil else window), W + 2*pad >= (1 if same or ceil else window):
    if pad > 0 or same or ceil:
        y[n, p, q, c] = max[u: window, v: window](
            (
                x[
                    n,
                    stride*p + u - window_start(H, window, stride, pad, 1, same),
                    stride*q + v - window_start(W, window, stride, pad, 1, same),
                    c,
                ]
                else -inf
            ),
        )
    else:
        y[n, p, q, c] = max[u: window, v: window](x[n, stride*p + u, stride*q + v, c])

# The largest value of each window, three axes.
fn max_pool3d(
    x: [N, D, H, W, C],
    window: int = 2,
    stride: int = 2,
    pad: int = 0,
    same: bool = false,
    ceil: bool = false,
) -> y: [
    N,
    P = window_count(D, window, stride, pad, 1, same, ceil),
    Q = window_count(H, window, stride, pad, 1, same, ceil),
    R = window_count(W, window, stride, pad, 1, same, ceil),
    C,
] where D + 2*pad >= (1 if same or ceil else window), (
    H + 2*pad >= (1 if same or ceil else window)
), W + 2*pad >= (1 if same or ceil else window):
    if pad > 0 or same or ceil:
        y[n, p, q, r, c] = max[u: window, v: window, w: window](
            (
                x[
                    n,
                    stride*p + u - window_start(D, window, stride, pad, 1, same),
                    stride*q + v - window_start(H, window, stride, pad, 1, same),
                    stride*r + w - window_start(W, window, stride, pad, 1, same),
                    c,
                ]
                else -inf
            ),
        )
    else:
        y[n, p, q, r, c] = max[u: window, v: window, w: window](
            x[n, stride*p + u, stride*q + v, stride*r + w, c]
        )

# The mean of each window, one axis.
fn avg_pool1d(
    x: [N, T, C],
    window: int = 2,
    stride: int = 2,
    pad: int = 0,
    same: bool = false,
    ceil: bool = false,
) -> y: [
    N, P = window_count(T, window, stride, pad, 1, same, ceil), C
] where T + 2*pad >= (1 if same or ceil else window):
    if pad > 0 or same or ceil:
        y[n, p, c] = (
            sum[u: window](
                (x[n, stride*p + u - window_start(T, window, stride, pad, 1, same), c] else 0)
            )
            / window_part(p, T, window, stride, pad, same)
        )
    else:
        y[n, p, c] = mean[u: window](x[n, stride*p + u, c])

# The mean of each window, two axes.
fn avg_pool2d(
    x: [N, H, W, C],
    window: int = 2,
    stride: int = 2,
    pad: int = 0,
    same: bool = false,
    ceil: bool = false,
) -> y: [
    N,
    P = window_count(H, window, stride, pad, 1, same, ceil),
    Q = window_count(W, window, stride, pad, 1, same, ceil),
    C,
] where H + 2*pad >= (1 if same or ceil else window), W + 2*pad >= (1 if same or ceil else window):
    if pad > 0 or same or ceil:
        y[n, p, q, c] = (
            sum[u: window, v: window](
                (
                    x[
                        n,
                        stride*p + u - window_start(H, window, stride, pad, 1, same),
                        stride*q + v - window_start(W, window, stride, pad, 1, same),
                        c,
                    ]
                    else 0
                ),
            )
            / (
                window_part(p, H, window, stride, pad, same)
                * window_part(q, W, window, stride, pad, same)
            )
        )
    else:
        y[n, p, q, c] = mean[u: window, v: window](x[n, stride*p + u, stride*q + v, c])

# The mean of each window, three axes.
fn avg_pool3d(
    x: [N, D, H, W, C],
    window: int = 2,
    stride: int = 2,
    pad: int = 0,
    same: bool = false,
    ceil: bool = false,
) -> y: [
    N,
    P = window_count(D, window, stride, pad, 1, same, ceil),
    Q = window_count(H, window, stride, pad, 1, same, ceil),
    R = window_count(W, window, stride, pad, 1, same, ceil),
    C,
] where D + 2*pad >= (1 if same or ceil else window), (
    H + 2*pad >= (1 if same or ceil else window)
), W + 2*pad >= (1 if same or ceil else window):
    if pad > 0 or same or ceil:
        y[n, p, q, r, c] = (
            sum[u: window, v: window, w: window](
                (
                    x[
                        n,
                        stride*p + u - window_start(D, window, stride, pad, 1, same),
                        stride*q + v - window_start(H, window, stride, pad, 1, same),
                        stride*r + w - window_start(W, window, stride, pad, 1, same),
                        c,
                    ]
                    else 0
                ),
            )
            / (
                window_part(p, D, window, stride, pad, same)
                * window_part(q, H, window, stride, pad, same)
                * window_part(r, W, window, stride, pad, same)
            )
        )
    else:
        y[n, p, q, r, c] = mean[u: window, v: window, w: window](
            x[n, stride*p + u, stride*q + v, stride*r + w, c]
        )

# The sum of each channel over all positions (section 7.2.1).
fn global_sum_pool(x: [N, ..., C]) -> y: [N, C]:
    y[n, c] = sum[...](x[n, ..., c])

# The mean of each channel over all positions (equation 7.11).
fn global_avg_pool(x: [N, ..., C]) -> y: [N, C]:
    y[n, c] = mean[...](x[n, ..., c])

# The maximum of each channel over all positions (section 7.2.1).
fn global_max_pool(x: [N, ..., C]) -> y: [N, C]:
    y[n, c] = max[...](x[n, ..., c])

# An axis made longer by entries of one value before and after it.
fn pad1d(
    x: [N, T, C], before: int = 0, after: int = 0, value: float = 0.0
) -> y: [N, T + before + after, C]:
    y[n, t, c] = (x[n, t - before, c] else value)

# An image with a border of one value, as wide on each side as that side says.
fn pad2d(
    x: [N, H, W, C],
    top: int = 0,
    bottom: int = 0,
    left: int = 0,
    right: int = 0,
    value: float = 0.0,
) -> y: [N, H + top + bottom, W + left + right, C]:
    y[n, h, w, c] = (x[n, h - top, w - left, c] else value)

# A volume with a border of one value, as wide on each side as that side says.
fn pad3d(
    x: [N, D, H, W, C],
    front: int = 0,
    back: int = 0,
    top: int = 0,
    bottom: int = 0,
    left: int = 0,
    right: int = 0,
    value: float = 0.0,
) -> y: [N, D + front + back, H + top + bottom, W + left + right, C]:
    y[n, d, h, w, c] = (x[n, d - front, h - top, w - left, c] else value)

# Each pixel repeated to a square of factor x factor pixels.
fn upsample2d(x: [N, H, W, C], factor: int = 2) -> y: [N, H * factor, W * factor, C]:
    y[n, (h a), (w b), c] = x[n, h, w, c] where a = factor, b = factor

# An image cut into square patches, each laid out as one row.
fn patches(
    x: [N, H, W, C], side: size
) -> y: [N, (H / side) * (W / side), side * side * C] where H % side == 0, W % side == 0:
    y[n, (h w), (a b c)] = x[n, (h a), (w b), c] where a = side, b = side

# The patches of a sequence, each laid out as one row: a convolution is `dense` of them.
fn unfold1d(
    x: [N, T, C], kernel: int = 3, stride: int = 1, pad: int = 0
) -> y: [N, P = (T + 2*pad - kernel) // stride + 1, kernel * C] where T + 2*pad >= kernel:
    y[n, p, (u c)] = (x[n, stride*p + u - pad, c] else 0) where u = kernel

# The patches of an image, each laid out as one row: a convolution is `dense` of them (section 7.1.2).
fn unfold2d(
    x: [N, H, W, C], kernel: int = 3, stride: int = 1, pad: int = 0
) -> y: [
    N,
    P = (H + 2*pad - kernel) // stride + 1,
    Q = (W + 2*pad - kernel) // stride + 1,
    kernel * kernel * C,
] where H + 2*pad >= kernel, W + 2*pad >= kernel:
    y[n, p, q, (u v c)] = (
        x[n, stride*p + u - pad, stride*q + v - pad, c] else 0
    ) where u = kernel, v = kernel

# The transpose of unfold2d: patches are laid back onto an image, and added where they overlap.
fn fold2d(
    y: [N, P, Q, E], height: size, width: size, kernel: int = 3, stride: int = 1, pad: int = 0
) -> x: [
    N, H = height, W = width, C = E / kernel^2
] where E % kernel^2 == 0, height + 2*pad >= kernel, width + 2*pad >= kernel, (
    P == (height + 2*pad - kernel) // stride + 1
), Q == (width + 2*pad - kernel) // stride + 1:
    image[n: N, h: H, w: W, c: C] = 0.0
    x = vjp(unfold2d(image, kernel, stride, pad), image, y)
