layer attention_scores(q: [N, T, 64], k: [N, S, 32]) -> y: [N, T, S]:
    y[n, t, s] = q[n, t, d] * k[n, s, d] / 8
