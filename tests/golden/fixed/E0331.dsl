fn average(x: [N, T, K]) -> y: [N, T]:
    y[n, t] = mean[h](x[n, t, h])
