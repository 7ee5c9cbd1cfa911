# Data augmentation (section 9.2.3): images x[n, h, w, c] changed in ways that keep what they show. The functions take the
# parameters of a change, which leave the image as it is for some value; the layers draw them anew for each image in
# training, and do nothing at inference.

# ---- the image seen from elsewhere

# The value at places between pixels, as the mean of the four around them by their distance; 0 outside of the image.
fn resample(x: [N, H, W, C], row: [N, P, Q], column: [N, P, Q]) -> y: [N, P, Q, C]:
    top[n, p, q] = i32(floor(row[n, p, q]))
    left[n, p, q] = i32(floor(column[n, p, q]))
    down[n, p, q] = row[n, p, q] - top[n, p, q]
    right[n, p, q] = column[n, p, q] - left[n, p, q]
    near[n, p, q, a: 2] = down[n, p, q] if a == 1 else 1 - down[n, p, q]
    beside[n, p, q, b: 2] = right[n, p, q] if b == 1 else 1 - right[n, p, q]
    y[n, p, q, c] = (
        near[n, p, q, a]
        * beside[n, p, q, b]
        * (x[n, top[n, p, q] + a, left[n, p, q] + b, c] else 0)
    )

# Turned about the centre by an angle in radians, against the clock; `nearest` takes pixels as they are.
fn rotate(x: [N, H, W, C], angle: [N], nearest = false) -> y: [N, H, W, C]:
    row[n, h: H, w: W] = (
        (H - 1) / 2 + cos(angle[n]) * (h - (H - 1) / 2) + sin(angle[n]) * (w - (W - 1) / 2)
    )
    column[n, h: H, w: W] = (
        (W - 1) / 2 - sin(angle[n]) * (h - (H - 1) / 2) + cos(angle[n]) * (w - (W - 1) / 2)
    )
    if nearest:
        y = resample(x, round(row), round(column))
    else:
        y = resample(x, row, column)

# Made larger by a factor, about the centre.
fn zoom(x: [N, H, W, C], factor: [N]) -> y: [N, H, W, C]:
    row[n, h: H, w: W] = (H - 1) / 2 + (h - (H - 1) / 2) / factor[n]
    column[n, h: H, w: W] = (W - 1) / 2 + (w - (W - 1) / 2) / factor[n]
    y = resample(x, row, column)

# Left and right exchanged.
fn mirror(x: [N, H, W, C]) -> y: [N, H, W, C]:
    y[n, h, w, c] = x[n, h, W-1-w, c]

# ---- its colours

# Lighter by a number.
fn brightness(x: [N, H, W, C], by: [N]) -> y: [N, H, W, C]:
    y[n, h, w, c] = x[n, h, w, c] + by[n]

# Farther from its mean by a factor.
fn contrast(x: [N, H, W, C], factor: [N]) -> y: [N, H, W, C]:
    centre[n] = mean[h, w, c](x[n, h, w, c])
    y[n, h, w, c] = centre[n] + factor[n] * (x[n, h, w, c] - centre[n])

# ---- pairs of examples

# Each example mixed with the one after it in the batch, of which it keeps a share; for labels as for inputs.
fn mixup(x: [N, ...], share: [N]) -> y: [N, ...]:
    y[n, ...] = share[n] * x[n, ...] + (1 - share[n]) * x[wrap(n + 1), ...]

# A square patch of each image, all else from the one after it in the batch.
fn cutmix(x: [N, H, W, C], top: i32[N], left: i32[N], side: int) -> y: [N, H, W, C]:
    inside[n, h: H, w: W] = (
        h >= top[n] and h < top[n] + side and w >= left[n] and w < left[n] + side
    )
    y[n, h, w, c] = x[n, h, w, c] if inside[n, h, w] else x[wrap(n + 1), h, w, c]

# ---- drawn in training

# A mirror image with probability p.
layer random_flip(x: [N, H, W, C], p = 0.5) -> y: [N, H, W, C]:
    training:
        coin[n: N] = bernoulli[n](p)
        y[n, h, w, c] = x[n, h, W-1-w, c] if coin[n] > 0.5 else x[n, h, w, c]
    inference:
        y = x

# Moved down by up to `most` pixels; what leaves on one side comes back on the other.
layer random_shift(x: [N, H, W, C], most = 1) -> y: [N, H, W, C]:
    training:
        down[n: N] = randint[n](-most, most + 1)
        row[n, h: H] = h + down[n]
        y[n, h, w, c] = x[n, wrap(row[n, h]), w, c]
    inference:
        y = x

# Turned by up to `most` degrees to either side.
layer random_rotation(x: [N, H, W, C], most = 10.0) -> y: [N, H, W, C]:
    training:
        degrees[n: N] = uniform[n](-most, most)
        y = rotate(x, degrees * pi / 180)
    inference:
        y = x

# A square of side pixels set to zero, at a random place.
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

# RandAugment: `count` changes behind each other, each drawn for the whole batch from turning, zooming, brightness and
# contrast, all of one magnitude; which way they go is drawn for each image.
layer rand_augment(x: [N, H, W, C], count = 2, magnitude = 0.2) -> y: [N, H, W, C]:
    training:
        y = x
        for s in 0..count:
            kind[j: 1] = randint[j](0, 4)
            by[n: N] = magnitude * (2 * bernoulli[n](0.5) - 1)
            turned = rotate(y, by)
            larger = zoom(y, exp(by))
            lighter = brightness(y, by)
            stronger = contrast(y, exp(by))
            y[n, h, w, c] = (
                turned[n, h, w, c]
                if kind[0] == 0
                else larger[n, h, w, c]
                if kind[0] == 1
                else lighter[n, h, w, c] if kind[0] == 2 else stronger[n, h, w, c]
            )
    inference:
        y = x
