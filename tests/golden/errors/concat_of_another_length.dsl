fn joined(a: [N, S], b: [N, T]) -> y: [N, S]:
    y[n, t] = concat[t](a[n, t], b[n, t])
