# Multi-class logistic regression with probabilities as output (chapter 4).
# The target may be any distribution over the classes, such as smoothed or mixed labels.

model softmax_regression(x: f32[N, features], features = 64, classes = 10) -> p: [N, classes]:
    param W: [features, classes] ~ zeros
    param b: [classes] ~ zeros
    logits[n, k] = x[n, i] * W[i, k] + b[k]
    p[n, k] = softmax[k](logits[n, k])
    expose logits

train softmax_regression(x, target: simplex f32[N, classes], batch = 64, epochs = 30):
    p = softmax_regression(x)
    minimize -mean[n](sum[k](target[n, k] * log(p[n, k])))
    metric accuracy = mean[n](1.0 if argmax[k](p[n, k]) == argmax[k](target[n, k]) else 0.0)
    using sgd(lr = 0.5 / sqrt(step))
