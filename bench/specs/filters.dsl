# A stack of 3 x 3 convolutions that keeps the size of an image, as networks that remove noise have it.

model filters(
    image: f32[N, H, W, 3], width = 32, depth = 3
) -> y: [N, H, W, 3] where H >= 3, W >= 3:
    h = image |> conv2d(width, kernel = 3, pad = 1) |> relu
    for l in 0..depth:
        h = h |> conv2d(width, kernel = 3, pad = 1) |> relu
    y = h |> conv2d(3, kernel = 3, pad = 1)
