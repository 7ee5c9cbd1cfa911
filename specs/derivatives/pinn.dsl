# A network that solves a differential equation: u'' + u = 0, u(0) = 0, u'(0) = 1 (chapter 6).
# The loss contains the second derivative of the network in its input.

model pinn(x: f32[N], hidden = 32) -> (u: [N], residual: [N]):
    point[n, i: 1] = x[n]
    net = point |> dense(hidden) |> tanh |> dense(hidden) |> tanh |> dense(1)
    u[n] = x[n] + x[n]^2 * net[n, 0]
    first = grad(sum(u), x)
    second = grad(sum(first), x)
    residual = second + u

train pinn(x, batch = 64, epochs = 500):
    u, residual = pinn(x)
    minimize mean(residual^2)
    metric error = mean(abs(u - sin(x)))
    using adam(lr = 3e-3)
