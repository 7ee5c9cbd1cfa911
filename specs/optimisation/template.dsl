# A template found again: among vectors of length 1, the one whose inner product with x is largest is x itself
# (chapter 2). Each step follows the gradient and goes back to length 1.

model template(x: f64[D], begin: f64[D], lr = 0.5, steps = 60) -> (match: [S = steps], y: [D]):
    target[i] = normalize[i](x[i])
    scan t in 0..steps:
        y_before[i] = path[t-1, i]
        score = y_before[i] * target[i]
        uphill = grad(score, y_before)
        path[t, i] = normalize[i](y_before[i] + lr * uphill[i])
        match[t] = path[t, i] * target[i]
    start path[i] = normalize[i](begin[i])
    y = path[steps-1, :]
