fn total(x: [N, K]) -> s: []:
    s = log(x[n, k])
