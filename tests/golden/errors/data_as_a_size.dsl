layer pooled(x: [N, T], width: i32[]) -> y: [N, T]:
    y[n, t] = mean[u: width](x[n, t])
