layer centred(x: [N, C]) -> y: [N, C]:
    state centre: [C] = 0
    training:
        mu[c] = mean[n](x[n, c])
        centre <- 0.9 * centre + 0.1 * mu
    y[n, c] = x[n, c] - mu[c]
