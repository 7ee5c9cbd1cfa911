# The classifier of chapter 7 grown step by step (exercise of chapter 9): deeper by `depth`, then with normalisation,
# dropout and skips where each of them is switched on.

layer grown_block(x: [N, H, W, C], norm: bool, drop: float, skip: bool) -> y: [N, H, W, C]:
    h = x
    if norm:
        h = batch_norm(h)
    h = h |> relu |> conv2d(C, pad = 1)
    if drop > 0:
        h = dropout(h, drop)
    y = x + h if skip else h

model grown(
    x: f32[N, 64], width = 16, depth = 1, norm = false, drop = 0.0, skip = false, classes = 10
) -> logits: [N, classes]:
    image[n, h, w, c: 1] = x[n, (h w)] where h = 8, w = 8
    use base = conv_block(width)
    h = base(image)
    for l in 0..depth:
        h = grown_block(h, norm, drop, skip)
    use head = dense(classes)
    logits = h |> relu |> global_avg_pool |> head

train grown(x, label: i32[N] < classes, rate = 3e-3, batch = 64, epochs = 5):
    logits = grown(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = rate)
