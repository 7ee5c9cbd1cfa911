fn picked(log_p: [N, K], label: i32[N] < K) -> y: [N]:
    y[n] = -log_p[n, label[n]]
