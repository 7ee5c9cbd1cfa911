fn partition(x: [N, K]) -> z: [N]:
    z[n] = exp(x[n, k])
