layer shifted(x: [N, K]) -> y: [N, K]:
    param b: [K] = 0
    y[n, k] = x[n, k] + b[k]

model network(x: f32[N, 4]) -> y: [N, 4]:
    y = shifted(x)
