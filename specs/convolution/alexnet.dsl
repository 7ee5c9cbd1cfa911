# AlexNet (section 9.1): five convolutions, three of them in two groups, and three dense layers; 60,965,224 parameters.
# Its image has 227 by 227 pixels, so that windows of 11 by steps of 4 fit exactly.

# The largest value of overlapping windows, after each entry has been held down by its neighbours.
layer quenched(x: [N, H, W, C]) -> y: [N, (H - 1) // 2, (W - 1) // 2, C] where H >= 3, W >= 3:
    y = x |> relu |> local_response_norm |> max_pool2d(3)

model alexnet(
    image: f32[N, side, side, 3],
    side = 227,
    width = 32,
    groups = 2,
    hidden = 4096,
    drop = 0.5,
    classes = 1000,
) -> logits: [N, classes] where side >= 67, width % groups == 0:
    h = image |> conv2d(3 * width, kernel = 11, stride = 4) |> quenched
    h = h |> group_conv2d(8 * width, groups, kernel = 5, pad = 2) |> quenched
    h = h |> conv2d(12 * width, pad = 1) |> relu
    h = h |> group_conv2d(12 * width, groups) |> relu
    h = h |> group_conv2d(8 * width, groups) |> relu |> max_pool2d(3)
    h = h |> flatten |> dropout(drop) |> dense(hidden) |> relu
    logits = h |> dropout(drop) |> dense(hidden) |> relu |> dense(classes)

train alexnet(image, label: i32[N] < classes, batch = 128, epochs = 90):
    logits = alexnet(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using momentum(lr = 0.01, decay = 0.9)
