# Linear regression trained by gradient descent on the mean squared error (chapter 4).

model linear_regression(x: f32[N, features], features = 8) -> y: [N]:
    param w: [features] ~ zeros
    param b: [] = 0
    y[n] = x[n, i] * w[i] + b

train linear_regression(x, target: f32[N], batch = 32, epochs = 100):
    prediction = linear_regression(x)
    minimize mean[n]((prediction[n] - target[n])^2)
    metric mean_error = mean_absolute_error(prediction, target)
    using sgd(lr = 0.05)
