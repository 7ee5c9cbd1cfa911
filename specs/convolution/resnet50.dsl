# ResNet-50 for images of 224 by 224 pixels (chapter 9): a stem, four stages of bottlenecks, 25,557,032 parameters.
# `--set basic=true b=2 c=2 d=2 e=2` is ResNet-18, with 11,689,512; `d=23` is ResNet-101.

# A stage: the first block changes the shape, and so does what is added to it; all others are r(x) = f(x) + x.
layer stage(x: [N, H, W, C], path: layer, width: size, out: size, blocks: int, stride = 2) -> y:
    h = relu(path(x, width, stride) + shortcut(x, out, stride))
    for k in 1..blocks:
        h = relu(path(h, width) + h)
    y = h

model resnet50(
    image: f32[N, H, W, 3], width = 64, b = 3, c = 4, d = 6, e = 3, basic = false, classes = 1000
) -> logits: [N, classes]:
    h = stem(image, width)
    if basic:
        for k in 0..b:
            h = relu(resnet_path(h, width) + h)
        h = stage(h, resnet_path, 2 * width, 2 * width, c)
        h = stage(h, resnet_path, 4 * width, 4 * width, d)
        h = stage(h, resnet_path, 8 * width, 8 * width, e)
    else:
        h = stage(h, bottleneck_path, width, 4 * width, b, stride = 1)
        h = stage(h, bottleneck_path, 2 * width, 8 * width, c)
        h = stage(h, bottleneck_path, 4 * width, 16 * width, d)
        h = stage(h, bottleneck_path, 8 * width, 32 * width, e)
    logits = h |> global_avg_pool |> dense(classes)

train resnet50(image, label: i32[N] < classes, batch = 64, epochs = 90):
    logits = resnet50(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using momentum(lr = 0.1, decay = 0.9)
