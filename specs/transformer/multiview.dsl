# Several views of one object, seen by one network and compared by attention (chapter 10).
# The prediction does not depend on the order of the views.

layer look(image: [N, H, W, C], width: size) -> y: [N, width] where H >= 2, W >= 2:
    h = image |> conv2d(width, pad = 1) |> relu |> max_pool2d(2)
    y = h |> conv2d(width, pad = 1) |> relu |> global_avg_pool

model multiview(
    view: f32[N, V, H, W, 3], width = 32, heads = 4, classes = 10
) -> logits: [N, classes] where H >= 2, W >= 2, width % heads == 0:
    use see = look(width = width)
    h[:, v, :] = see(view[:, v, :, :, :])
    h = h |> transformer_block(heads, causal = false)
    logits = h |> global_avg_pool |> dense(classes)

train multiview(view, label: i32[N] < classes, batch = 16, epochs = 10):
    minimize cross_entropy(multiview(view), label)
    using adamw(lr = 1e-3)
