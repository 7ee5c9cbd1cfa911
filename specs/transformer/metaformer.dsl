# MetaFormer: one block, and the layer that mixes tokens is its argument (chapter 11).

import "mixers.dsl"
from "vit.dsl" import patch_tokens as tokens

layer metaformer_block(x: [N, T, E], mixer: layer, expand = 4) -> y: [N, T, E]:
    h = x + (x |> layer_norm |> mixer)
    y = h + (h |> layer_norm |> feed_forward(expand * E))

model metaformer(
    image: f32[N, 3, 32, 32], side = 4, width = 64, depth = 4, mixing = "pool", classes = 10
) -> logits: [N, classes] where 32 % side == 0:
    h = tokens(image, side, width)
    for l in 0..depth:
        if l == depth - 1:
            h = metaformer_block(h, mixer = attention(heads = 4, causal = false))
        elif mixing == "pool":
            h = metaformer_block(h, pool_mixer)
        elif mixing == "fourier":
            h = metaformer_block(h, fourier_mixer)
        elif mixing == "shift":
            h = metaformer_block(h, shift_mixer)
        else:
            h = metaformer_block(h, conv_mixer(kernel = 5), expand = 2)
    logits = h |> layer_norm |> global_avg_pool |> dense(classes)

train metaformer(image, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(metaformer(image), label)
    using adamw(lr = 1e-3)
