layer scaled(x: [N, K], gain = 2) -> y: [N, K]:
    param gain: [K] ~ ones
    y[n, k] = gain[k] * x[n, k]
