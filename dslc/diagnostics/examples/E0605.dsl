layer centred(x: [N, C], keep = 0.99) -> y: [N, C]:
    mu[c] = mean[n](x[n, c])
    centre <- keep * centre + (1 - keep) * mu
    y[n, c] = x[n, c] - mu[c]
