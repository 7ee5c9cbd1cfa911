fn classes(logits: [N, K]) -> y: i32[N]:
    y[n] = max[k](logits[n, k])
