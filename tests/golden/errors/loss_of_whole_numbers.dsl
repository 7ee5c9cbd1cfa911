model counter(x: f32[N, 4]) -> y: [N, 3]:
    y = dense(x, 3)

train counter(x, label: i32[N] < 3):
    wrong[n] = 1 if argmax[k](counter(x)[n, k]) != label[n] else 0
    minimize sum[n](wrong[n])
    using sgd(lr = 0.1)
