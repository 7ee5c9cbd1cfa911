fn scaled(x: [N, K], label: i32[N] < K) -> (y: [N], p: [N, K], c: [N, K], h: [N, K]):
    y[n] = norm[k](x[n, k])
    p[n, k] = softmax[k](x[n, k])
    c[n, k] = cumsum[k](x[n, k])
    h[n, k] = one_hot[k: K](label[n])
