# Vision transformer: an image as a sequence of patches behind a class token (chapter 11).

# Square patches of an image with channels first, each mapped to a token.
layer patch_tokens(
    image: [N, C, H, W], side: size, width: size
) -> y: [N, (H / side) * (W / side), width] where H % side == 0, W % side == 0:
    patch[n, (h w), (a b c)] = image[n, c, (h a), (w b)] where a = side, b = side
    y = dense(patch, width)

model vit(
    image: f32[N, 3, 32, 32], side = 4, width = 64, depth = 4, heads = 4, classes = 10
) -> logits: [N, classes] where 32 % side == 0, width % heads == 0:
    size T = (32 / side)^2 + 1
    param first: [width] ~ normal(0.02)
    param position: [T, width] ~ normal(0.02)
    patch = patch_tokens(image, side, width)
    h[n, t, e] = concat[t](first[e], patch[n, t, e])
    h[n, t, e] = h[n, t, e] + position[t, e]
    for l in 0..depth:
        h = h |> transformer_block(heads, causal = false)
    logits = h[:, 0, :] |> layer_norm |> dense(classes)

train vit(image, label: i32[N] < classes, batch = 64, epochs = 20):
    logits = vit(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 1e-3, weight_decay = 0.05)
