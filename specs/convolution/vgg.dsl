# VGG (chapter 7): kernels of 3 by 3 everywhere, blocks that halve the resolution and double the channels up to a most,
# and a head of three dense layers. As it stands it is VGG-16, with 138,357,544 parameters; `--set late=4` is VGG-19,
# `late=2` VGG-13, `early=1 late=2` VGG-11.

model vgg(
    image: f32[N, side, side, 3],
    side = 224,
    width = 64,
    most = 512,
    blocks = 5,
    early = 2,
    late = 3,
    hidden = 4096,
    drop = 0.5,
    classes = 1000,
) -> logits: [N, classes] where side % 2^blocks == 0:
    h = image
    for b in 0..blocks:
        h = conv_block(h, min(width * 2^b, most), convs = early if b < 2 else late)
    h = h |> flatten |> dense(hidden) |> relu |> dropout(drop)
    logits = h |> dense(hidden) |> relu |> dropout(drop) |> dense(classes)

train vgg(image, label: i32[N] < classes, batch = 256, epochs = 74):
    logits = vgg(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using momentum(lr = 0.01, decay = 0.9)
