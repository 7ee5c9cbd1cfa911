# Residual networks (section 9.4): a block r(x) = f(x) + x says how far it is from the identity. Here are the paths f,
# which `x + f(x)` or `residual` make a block, and what stands in place of x where f changes the shape.

# Two convolutions, the last one without an activation: BN Conv ReLU BN Conv.
layer resnet_path(
    x: [N, H, W, C], out: size, stride = 1
) -> y: [N, (H - 1) // stride + 1, (W - 1) // stride + 1, out]:
    h = x |> conv2d(out, stride = stride, pad = 1, bias = false) |> batch_norm |> relu
    y = h |> conv2d(out, pad = 1, bias = false) |> batch_norm

# A bottleneck: channels compressed to `width`, convolved, and expanded again.
layer bottleneck_path(
    x: [N, H, W, C], width: size, stride = 1, expand = 4
) -> y: [N, (H - 1) // stride + 1, (W - 1) // stride + 1, expand * width]:
    h = x |> conv2d(width, kernel = 1, bias = false) |> batch_norm |> relu
    h = h |> conv2d(width, stride = stride, pad = 1, bias = false) |> batch_norm |> relu
    y = h |> conv2d(expand * width, kernel = 1, bias = false) |> batch_norm

# A wide depthwise convolution, then channels expanded and compressed again; layer norm and gelu.
layer convnext_path(
    x: [N, H, W, C], kernel = 7, expand = 4
) -> y: [N, H, W, C] where kernel % 2 == 1:
    h = x |> depthwise_conv2d(kernel = kernel, pad = kernel // 2) |> layer_norm
    y = h |> dense(expand * C) |> gelu |> dense(C)

# What is added to a path that changes the shape: a strided map of the channels, r(x) = f(x) + Conv1x1(x).
layer shortcut(
    x: [N, H, W, C], out: size, stride = 1
) -> y: [N, (H - 1) // stride + 1, (W - 1) // stride + 1, out]:
    y = x |> conv2d(out, kernel = 1, stride = stride, bias = false) |> batch_norm

# What stands in front of the blocks: a quarter of the resolution, by a strided convolution and a strided maximum.
layer stem(x: [N, H, W, C], out: size) -> y: [N, (H + 3) // 4, (W + 3) // 4, out]:
    h = x |> conv2d(out, kernel = 7, stride = 2, pad = 3, bias = false) |> batch_norm |> relu
    y[n, p, q, c] = max[u: 3, v: 3]((h[n, 2*p + u - 1, 2*q + v - 1, c] else -inf))
