layer double(x: [N, H, W, C], out: size) -> y: [N, H, W, out] where out % 2 == 0:
    h = conv2d(x, out, pad = 1, bias = false) |> group_norm(groups = 2) |> silu
    y = conv2d(h, out, pad = 1, bias = false) |> group_norm(groups = 2) |> silu

model unet(
    x: f32[N, H, W, C], base = 2, classes = 3
) -> logits: [N, H, W, classes] where H % 4 == 0, W % 4 == 0:
    a = double(x, base)
    b = double(max_pool2d(a), 2 * base)
    m = double(max_pool2d(b), 4 * base)
    ub[n, p, q, c] = concat[c](
        b[n, p, q, c], conv_transpose2d(m, 2 * base, kernel = 2, stride = 2)[n, p, q, c]
    )
    d = double(ub, 2 * base)
    ua[n, p, q, c] = concat[c](a[n, p, q, c], upsample2d(d)[n, p, q, c])
    e = double(ua, base)
    logits = dense(e, classes)

train unet(x, label: i32[N, H, W] < classes):
    logits = unet(x)
    p[n, h, w, k] = softmax[k](logits[n, h, w, k])
    inter[k] = sum[n, h, w](p[n, h, w, k] * one_hot[k: classes](label[n, h, w]))
    total[k] = sum[n, h, w](p[n, h, w, k] + one_hot[k: classes](label[n, h, w]))
    dice = 1 - mean[k]((2 * inter[k] + 1) / (total[k] + 1))
    minimize (
        mean[n, h, w](logsumexp[k](logits[n, h, w, k]) - logits[n, h, w, label[n, h, w]]) + dice
    )
    using adamw(lr = 1e-3)
