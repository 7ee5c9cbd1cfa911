# Gradient descent with momentum on a surface with several minima and saddles, from many places at once: the paths,
# the heights along them, and the lengths of the gradients (chapter 2). Without memory it is plain descent.

fn surface(x: [2]) -> z: []:
    z = sin(x[0]) * cos(x[1]) + sin(x[0] / 2) * cos(x[1] / 2)

fn slope(x: [2]) -> (g: [2], z: []):
    z = surface(x)
    g = grad(z, x)

model descent(
    begin: f64[M, 2], lr = 0.1, memory = 0.5, steps = 40
) -> (path: [S = steps, M, 2], height: [S, M], length: [S, M]):
    scan t in 0..steps:
        g[m, :], height[t, m] = slope(path[t-1, m, :])
        length[t, m] = norm[i](g[m, i])
        velocity[t, m, i] = memory * velocity[t-1, m, i] - lr * g[m, i]
        path[t, m, i] = path[t-1, m, i] + velocity[t, m, i]
    start path[m, i] = begin[m, i]
    start velocity[m: M, i: 2] = 0
