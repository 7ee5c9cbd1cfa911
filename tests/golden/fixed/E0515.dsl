fn standardised(x: [K]) -> z: [K]:
    mu = mean(x)
    z = (x - mu) / sqrt(mean[k]((x[k] - mu)^2))

fn rows(x: [N, K]) -> y: [N, K]:
    y[n, :] = standardised(x[n, :])
