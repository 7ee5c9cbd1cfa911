fn gray(image: [N, H, W, 3]) -> y: [N, H, W]:
    y[n, h, w] = mean[c](image[n, h, c])
