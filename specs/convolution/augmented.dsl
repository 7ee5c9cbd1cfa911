# Augmentation inside the model, in training only: flips, shifts, noise and cutout (chapter 9).
# Training pairs are mixed as well: mixup of each image with the one after it in the batch.

# A blur by the mean of three neighbours; at the border the edge pixel counts twice.
fn blur(x: [N, H, W, C]) -> y: [N, H, W, C]:
    y[n, h, w, c] = mean[u: 3](x[n, clamp(h + u - 1), w, c])

model augmented(x: f32[N, 64], width = 16, classes = 10) -> logits: [N, classes]:
    image[n, h, w, c: 1] = x[n, (h w)] where h = 8, w = 8
    image = image |> blur |> random_flip |> random_shift |> cutout |> gaussian_noise(0.05)
    h = image |> conv2d(width, pad = 1) |> group_norm(4) |> relu |> max_pool2d(2)
    h = h |> conv2d(2 * width, pad = 1) |> instance_norm |> relu |> channel_dropout(0.1)
    logits = h |> global_max_pool |> dense(classes)

train augmented(x, label: i32[N] < classes, batch = 64, epochs = 20):
    share[n: N] = uniform[n]()
    hot[n, k] = one_hot[k: classes](label[n])
    hot_mixed = mixup(hot, share)
    minimize soft_cross_entropy(augmented(mixup(x, share)), hot_mixed)
    metric accuracy = accuracy(augmented(x), label)
    using adamw(lr = 1e-3)
