# A residual network: stages of blocks, each stage with half the resolution and twice the
# channels of the one before (chapter 9).

# Two convolutions around a skip; the shape is kept.
layer basic_block(x: [N, H, W, C]) -> y: [N, H, W, C]:
    h = x |> conv2d(C, pad = 1, bias = false) |> batch_norm |> relu
    h = h |> conv2d(C, pad = 1, bias = false) |> batch_norm
    y = relu(x + h)

# The same with stride 2; the skip is a strided map of the channels.
layer down_block(x: [N, H, W, C], out: size) -> y: [N, (H - 1) // 2 + 1, (W - 1) // 2 + 1, out]:
    h = x |> conv2d(out, stride = 2, pad = 1, bias = false) |> batch_norm |> relu
    h = h |> conv2d(out, pad = 1, bias = false) |> batch_norm
    skip = x |> conv2d(out, kernel = 1, stride = 2, bias = false) |> batch_norm
    y = relu(skip + h)

# From an image to one vector of features.
layer backbone(x: [N, H, W, C], width = 16, stages = 3, blocks = 2) -> y:
    h = x |> conv2d(width, pad = 1, bias = false) |> batch_norm |> relu
    for s in 0..stages:
        if s > 0:
            h = down_block(h, width * 2^s)
        for b in 0..blocks:
            h = basic_block(h)
    y = global_avg_pool(h)

model resnet(image: f32[N, H, W, 3], width = 16, classes = 10) -> logits: [N, classes]:
    features = backbone(image, width)
    logits = dense(features, classes)
    expose features

train resnet(image, label: i32[N] < classes, batch = 64, epochs = 20):
    logits = resnet(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using momentum(lr = 0.05, decay = 0.9)
