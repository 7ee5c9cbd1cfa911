fn windows(x: [N, T], kernel = 3, stride = 2) -> y: [N, T // stride] where T >= 4:
    y[n, p] = sum[u: kernel](x[n, stride*p + u])
