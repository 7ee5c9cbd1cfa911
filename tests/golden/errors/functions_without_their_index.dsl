fn scaled(x: [N, K], label: i32[N] < K) -> (y: [N], p: [N, K], c: [N, K], h: [N, K]):
    y[n] = norm(x[n, k])
    p[n, k] = softmax(x[n, k])
    c[n, k] = cumsum(x[n, k])
    h[n, k] = one_hot(label[n])
