# A first classifier of small colour images (exercise of chapter 7): convolution, relu and pooling twice, then three
# dense layers; 62,006 parameters for images of 32 by 32 pixels.

model lenet(
    image: f32[N, side, side, channels], side = 32, channels = 3, kernel = 5, pad = 0, classes = 10
) -> logits: [N, classes]:
    h = image |> conv2d(6, kernel, pad = pad) |> relu |> max_pool2d
    h = h |> conv2d(16, kernel, pad = pad) |> relu |> max_pool2d
    logits = h |> flatten |> dense(120) |> relu |> dense(84) |> relu |> dense(classes)

train lenet(image, label: i32[N] < classes, batch = 32, epochs = 5):
    logits = lenet(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using momentum(lr = 0.01, decay = 0.9)
