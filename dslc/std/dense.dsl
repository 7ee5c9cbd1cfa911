# Fully connected layers, embeddings, dropout, and layers that wrap others.

# A linear map of the last axis, y = x W + b, whatever axes stand before it.
layer dense(x: [..., I], out: size, bias = true) -> y: [..., O = out]:
    param W: [I, O] ~ glorot
    if bias:
        param b: [O] ~ zeros
        y[..., o] = x[..., i] * W[i, o] + b[o]
    else:
        y[..., o] = x[..., i] * W[i, o]

# One trained vector for each token of a vocabulary.
layer embedding(token: i32[...] < vocabulary, vocabulary: size, width: size) -> y: [..., E = width]:
    param W: [V = vocabulary, E] ~ normal(0.02)
    y[..., e] = W[token[...], e]

# A form that is linear in each of two inputs.
layer bilinear(x: [..., I], z: [..., J], out: size) -> y: [..., O = out]:
    param W: [I, J, O] ~ glorot
    param b: [O] ~ zeros
    y[..., o] = x[..., i] * W[i, j, o] * z[..., j] + b[o]

# A product of two thin matrices in place of one full matrix.
layer low_rank(x: [..., I], out: size, rank: size) -> y: [..., O = out]:
    param A: [I, R = rank] ~ glorot
    param B: [R, O] ~ glorot
    y[..., o] = x[..., i] * A[i, r] * B[r, o]

# Zeroes each entry with probability p and scales up the others; does nothing at inference.
layer dropout(x: [...], p = 0.5) -> y: [...]:
    training:
        y[...] = x[...] * bernoulli[...](1 - p) / (1 - p)
    inference:
        y = x

# Dropout without the scale (section 9.3.1): keeps each entry with probability `keep` in training, and is its own
# expectation, keep * x, at inference.
layer expected_dropout(x: [...], keep = 0.5) -> y: [...]:
    training:
        y[...] = x[...] * bernoulli[...](keep)
    inference:
        y = keep * x

# Dropout of whole channels: one draw for each example and channel.
layer channel_dropout(x: [N, ..., C], p = 0.5) -> y: [N, ..., C]:
    training:
        y[n, ..., c] = x[n, ..., c] * bernoulli[n, c](1 - p) / (1 - p)
    inference:
        y = x

# A linear map whose weights, not whose inputs, are dropped at random.
layer drop_connect(x: [..., I], out: size, p = 0.5) -> y: [..., O = out]:
    param W: [I, O] ~ glorot
    param b: [O] ~ zeros
    training:
        kept[i, o] = W[i, o] * bernoulli[i, o](1 - p) / (1 - p)
    inference:
        kept = W
    y[..., o] = x[..., i] * kept[i, o] + b[o]

# Normal noise added in training.
layer gaussian_noise(x: [...], deviation = 0.1) -> y: [...]:
    training:
        y[...] = x[...] + normal[...](0, deviation)
    inference:
        y = x

# The axes of images merged into one, channels fastest: a row for each image.
fn flatten(x: [N, H, W, C]) -> y: [N, H * W * C]:
    y[n, (h w c)] = x[n, h, w, c]

# A skip connection around any layer that keeps the shape.
layer residual(x: [...], body: layer) -> y: [...]:
    y = x + body(x)

# A block applied `depth` times, with its own parameters each time.
layer repeated(x: [...], block: layer, depth: int) -> y: [...]:
    y = x
    for l in 0..depth:
        y = block(y)
