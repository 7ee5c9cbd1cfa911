fn standardised[k](x) -> z:
    mu = mean[k](x)
    z = (x - mu) / sqrt(mean[k]((x - mu)^2))

fn rows(x: [N, K]) -> y: [N, K]:
    y[n, k] = standardised[k](x[n, k])
