# Augmentation inside the model, in training only: flips, shifts, noise and cutout (chapter 9).
# Training pairs are mixed as well: mixup of each image with the one after it in the batch.

# A mirror image for half of the examples, drawn anew each time.
layer random_flip(x: [N, H, W, C]) -> y: [N, H, W, C]:
    training:
        coin[n: N] = bernoulli[n](0.5)
        y[n, h, w, c] = x[n, h, W-1-w, c] if coin[n] > 0.5 else x[n, h, w, c]
    inference:
        y = x

# The image moved by up to `most` pixels; what leaves on one side comes back on the other.
layer random_shift(x: [N, H, W, C], most = 1) -> y: [N, H, W, C]:
    training:
        down[n: N] = randint[n](-most, most + 1)
        row[n, h: H] = h + down[n]
        y[n, h, w, c] = x[n, wrap(row[n, h]), w, c]
    inference:
        y = x

# A square of side pixels set to zero, at a random place of each image.
layer cutout(x: [N, H, W, C], side = 2) -> y: [N, H, W, C]:
    training:
        top[n: N] = randint[n](0, H)
        left[n: N] = randint[n](0, W)
        y[n, h, w, c] = (
            0.0
            if h >= top[n] and h < top[n] + side and w >= left[n] and w < left[n] + side
            else x[n, h, w, c]
        )
    inference:
        y = x

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
    x_mixed[n, i] = share[n] * x[n, i] + (1 - share[n]) * x[wrap(n + 1), i]
    hot_mixed[n, k] = share[n] * hot[n, k] + (1 - share[n]) * hot[wrap(n + 1), k]
    minimize soft_cross_entropy(augmented(x_mixed), hot_mixed)
    metric accuracy = accuracy(augmented(x), label)
    using adamw(lr = 1e-3)
