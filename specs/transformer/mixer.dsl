# MLP-Mixer: dense layers across channels, and across tokens, by turns (chapter 11).

from "vit.dsl" import patch_tokens

# Mixes tokens: the dense layers act on the axis of positions, whose size is fixed.
layer mix_tokens(x: [N, T, E], hidden: size) -> y: [N, T, E]:
    param U: [T, P = hidden] ~ glorot
    param V: [P, T] ~ glorot
    h[n, p, e] = gelu(x[n, t, e] * U[t, p])
    y[n, t, e] = h[n, p, e] * V[p, t]

layer mixer_block(x: [N, T, E], tokens: size, channels: size) -> y: [N, T, E]:
    h = x + (x |> layer_norm |> mix_tokens(tokens))
    y = h + (h |> layer_norm |> feed_forward(channels))

model mixer(
    image: f32[N, 3, 32, 32], side = 4, width = 64, depth = 4, classes = 10
) -> logits: [N, classes] where 32 % side == 0:
    h = patch_tokens(image, side, width)
    for l in 0..depth:
        h = mixer_block(h, tokens = 32, channels = 4 * width)
    logits = h |> layer_norm |> global_avg_pool |> dense(classes)

train mixer(image, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(mixer(image), label)
    using adamw(lr = 1e-3)
