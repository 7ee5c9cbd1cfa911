layer paired(x: [N, 64], z: [N, 32]) -> y: [N]:
    y[n] = x[n, k] * z[n, k]
