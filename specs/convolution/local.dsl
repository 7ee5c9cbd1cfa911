# From a dense layer to a convolution: first each pixel has filters of its own, then all share
# them, and a ring of neighbours wraps around the image (chapter 7).

# Locally connected: the filter depends on the pixel.
layer locally_connected(x: [N, H, W, C], out: size) -> y: [N, H, W, O = out]:
    param K: [H, W, 3, 3, C, O] ~ normal(0.1)
    y[n, h, w, o] = (x[n, h+u-1, w+v-1, c] else 0) * K[h, w, u, v, c, o]

# Shared filters on a torus: commutes with every cyclic shift of the image.
layer cyclic_conv(x: [N, H, W, C], out: size) -> y: [N, H, W, O = out]:
    param K: [3, 3, C, O] ~ he
    y[n, h, w, o] = x[n, wrap(h + u - 1), wrap(w + v - 1), c] * K[u, v, c, o]

# A fixed filter that answers to ridges: 8 in the middle, -1 around it.
layer ridges(x: [N, H, W, C]) -> y: [N, H - 2, W - 2, C] where H > 2, W > 2:
    frozen param K[u, v]: [3, 3] = 8 if u == 1 and v == 1 else -1
    y[n, p, q, c] = x[n, p + u, q + v, c] * K[u, v]

model local(x: f32[N, 64], width = 8, classes = 10) -> logits: [N, classes]:
    image[n, h, w, c: 1] = x[n, (h w)] where h = 8, w = 8
    near = image |> locally_connected(width) |> relu |> cyclic_conv(width) |> relu
    edge = ridges(image)
    a = flatten(near[:, ::2, ::2, :])
    b = flatten(edge)
    both[n, f] = concat[f](a[n, f], b[n, f])
    logits = dense(both, classes)

train local(x, label: i32[N] < classes, batch = 64, epochs = 10):
    minimize cross_entropy(local(x), label)
    using adamw(lr = 1e-3)
