layer shifted(x: [N, K], b: [K] = 0) -> y: [N, K]:
    y[n, k] = x[n, k] + b[k]

model network(x: f32[N, 4]) -> y: [N, 4]:
    y = shifted(x)
