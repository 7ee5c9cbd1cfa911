# A spatial transformer: a localisation network, an affine grid, bilinear sampling with zeros outside, a classifier.
layer located(x: [N, H, W, C]) -> theta: [N, 2, 3] where H > 4, W > 4:
    h = x |> conv2d(4) |> relu |> max_pool2d(2) |> flatten |> dense(8) |> tanh
    param V: [8, 2, 3] ~ normal(0.05)
    param b[r, c]: [2, 3] = 1 if r == c else 0
    theta[n, r, c] = h[n, k] * V[k, r, c] + b[r, c]

fn sampled(x: [N, H, W, C], theta: [N, 2, 3]) -> y: [N, H, W, C]:
    u[j: W] = 2 * (j + 0.5) / W - 1
    v[i: H] = 2 * (i + 0.5) / H - 1
    gx[n, i, j] = theta[n, 0, 0] * u[j] + theta[n, 0, 1] * v[i] + theta[n, 0, 2]
    gy[n, i, j] = theta[n, 1, 0] * u[j] + theta[n, 1, 1] * v[i] + theta[n, 1, 2]
    px = ((gx + 1) * W - 1) / 2
    py = ((gy + 1) * H - 1) / 2
    left = i64(floor(px))
    top = i64(floor(py))
    fx = px - floor(px)
    fy = py - floor(py)
    y[n, i, j, c] = (
        (1 - fy[n, i, j]) * (1 - fx[n, i, j]) * (x[n, top[n, i, j], left[n, i, j], c] else 0)
        + (1 - fy[n, i, j]) * fx[n, i, j] * (x[n, top[n, i, j], left[n, i, j] + 1, c] else 0)
        + fy[n, i, j] * (1 - fx[n, i, j]) * (x[n, top[n, i, j] + 1, left[n, i, j], c] else 0)
        + fy[n, i, j] * fx[n, i, j] * (x[n, top[n, i, j] + 1, left[n, i, j] + 1, c] else 0)
    )

model stn(x: f64[N, 8, 8, 1], classes = 3) -> (logits: [N, classes], warped: [N, 8, 8, 1]):
    theta = located(x)
    warped = sampled(x, theta)
    logits = warped |> conv2d(4) |> relu |> global_avg_pool |> dense(classes)

train stn(x, label: i32[N] < classes):
    logits, warped = stn(x)
    minimize cross_entropy(logits, label)
    using adam(lr = 1e-3)
