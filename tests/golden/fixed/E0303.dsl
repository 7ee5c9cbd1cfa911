fn partition(x: [N, K]) -> z: [N]:
    z[n] = sum[k](exp(x[n, k]))
