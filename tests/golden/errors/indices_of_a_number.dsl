layer scaled(x: [N, K]) -> y: [N, K]:
    param s: [] = 1
    y[n, k] = s[k] * x[n, k]
