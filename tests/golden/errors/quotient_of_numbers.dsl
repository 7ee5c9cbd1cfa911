model vision(x: f32[N, 784], patch = 5) -> y: [N, 784 / patch]:
    y[n, p] = mean[a: 5](x[n, 5*p + a])
