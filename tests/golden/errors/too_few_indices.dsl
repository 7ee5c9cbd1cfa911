fn scores(q: [N, T, D], k: [N, S, D]) -> y: [N, T, S]:
    y[n, t, s] = q[t, d] * k[n, s, d]
