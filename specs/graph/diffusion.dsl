# Diffusion of heat along the edges of a graph, and a penalty that keeps neighbours alike
# (chapter 12). The steps share two trained rates.

model diffusion(x: f32[V], src: i32[M] < V, dst: i32[M] < V, w: f32[M], steps = 10) -> y: [V]:
    param rate: [] = -2
    param gain: [] = 1
    speed = sigmoid(rate)
    scan k in 0..steps:
        flow[dst[m]: V] += w[m] * (h[k-1, src[m]] - h[k-1, dst[m]])
        h[k, v] = h[k-1, v] + speed * flow[v]
    start h[v] = x[v]
    y[v] = gain * h[steps-1, v]

train diffusion(x, src, dst, w, target: f32[V], known: bool[V], epochs = 100):
    y = diffusion(x, src, dst, w)
    misfit = sum[v]((y[v] - target[v])^2 if known[v] else 0)
    rough = sum[m](w[m] * (y[src[m]] - y[dst[m]])^2)
    minimize misfit + 0.01 * rough
    using adam(lr = 0.05)
