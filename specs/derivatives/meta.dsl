# Learning to learn: the loss after one step of gradient descent on a task, as a function of the
# starting point and of the step (chapters 3, 6). The gradient passes through the inner gradient.

fn fit(w: [D], x: [N, D], y: [N]) -> loss: []:
    loss = mean[n]((x[n, d] * w[d] - y[n])^2)

model meta(x: f32[N, features], y: f32[N], x_new: f32[M, features], features = 4) -> y_new: [M]:
    param w: [features] ~ zeros
    param log_rate: [] = -3
    loss = fit(w, x, y)
    adapted = w - exp(log_rate) * grad(loss, w)
    y_new[m] = x_new[m, d] * adapted[d]
    expose adapted

train meta(x, y, x_new, target: f32[M], epochs = 20):
    minimize mean_squared_error(meta(x, y, x_new), target)
    using sgd(lr = 0.01)
