# A convolutional classifier: two blocks that halve the image, then a dense layer.

layer conv_block(x: [N, H, W, C], out: size) -> y: [N, H // 2, W // 2, out] where H >= 2, W >= 2:
    h = x |> conv2d(out, kernel = 3, pad = 1, bias = false) |> batch_norm
    y = h |> relu |> max_pool2d(2)

model cnn(
    image: f32[N, side, side, 3], side = 32, width = 32, classes = 10
) -> logits: [N, classes] where side >= 4:
    h = image |> conv_block(width) |> conv_block(2 * width)
    logits = h |> flatten |> dense(classes)

train cnn(image, label: i32[N] < classes):
    minimize cross_entropy(cnn(image), label)
    using adam(lr = 1e-3)
