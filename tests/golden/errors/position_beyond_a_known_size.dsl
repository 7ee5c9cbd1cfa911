fn blue(image: [N, H, W, 3]) -> y: [N, H, W]:
    y[n, h, w] = image[n, h, w, 3]
