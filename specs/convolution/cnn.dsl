# A small convolutional classifier for images of 8 by 8 pixels, given as rows of 64 (chapter 7).

layer conv_block(x: [N, H, W, C], out: size) -> y: [N, H // 2, W // 2, out] where H >= 2, W >= 2:
    y = x |> conv2d(out, kernel = 3, pad = 1) |> relu |> max_pool2d(2)

model cnn(x: f32[N, 64], width = 16, classes = 10) -> logits: [N, classes]:
    image[n, h, w, c: 1] = x[n, (h w)] where h = 8, w = 8
    h = image |> conv_block(width) |> conv_block(2 * width)
    logits = h |> global_avg_pool |> dense(classes)
    expose h

train cnn(x, label: i32[N] < classes, batch = 64, epochs = 10):
    logits = cnn(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 3e-3)
