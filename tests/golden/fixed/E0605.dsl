layer centred(x: [N, C], keep = 0.99) -> y: [N, C]:
    state centre: [C] = 0
    mu[c] = mean[n](x[n, c])
    centre <- keep * centre + (1 - keep) * mu
    y[n, c] = x[n, c] - mu[c]
