# ConvNeXt: wide depthwise convolutions, layer norm and gelu around a skip (chapter 9).

# Depthwise convolution, expand, contract; a small trained scale on the new part.
layer convnext_block(x: [N, H, W, C], expand = 4) -> y: [N, H, W, C]:
    param scale: [C] ~ constant(1e-2)
    h = x |> depthwise_conv2d(kernel = 7, pad = 3) |> layer_norm
    h = h |> dense(expand * C) |> gelu |> dense(C)
    y[n, i, j, c] = x[n, i, j, c] + scale[c] * h[n, i, j, c]

# Halves the resolution by a convolution of 2 by 2 patches.
layer downsample(
    x: [N, H, W, C], out: size
) -> y: [N, H / 2, W / 2, out] where H % 2 == 0, W % 2 == 0:
    y = x |> layer_norm |> conv2d(out, kernel = 2, stride = 2)

model convnext(
    image: f32[N, 32, 32, 3], width = 32, stages = 3, blocks = 2, classes = 10
) -> logits: [N, classes]:
    h = image |> conv2d(width, kernel = 4, stride = 4) |> layer_norm
    for s in 0..stages:
        if s > 0:
            h = downsample(h, width * 2^s)
        for b in 0..blocks:
            h = convnext_block(h)
    logits = h |> global_avg_pool |> layer_norm |> dense(classes)

train convnext(image, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(convnext(image), label)
    using clipped_adamw(lr = 4e-3, weight_decay = 0.05, clip = 1.0)
