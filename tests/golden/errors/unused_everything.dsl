layer block(x: [N, K], width = 64, act: fn) -> y: [N, K]:
    param W, V: [K, K] ~ glorot
    use other = dense(K)
    h[n, o] = x[n, k] * W[k, o]
    y = relu(x)

model network(x: f32[N, 8]) -> y: [N, 8]:
    y = block(x, act = gelu)

train network(x, target: f32[N, 8], weight: f32[N]):
    minimize mean_squared_error(network(x), target)
    using sgd(lr = 0.1)
