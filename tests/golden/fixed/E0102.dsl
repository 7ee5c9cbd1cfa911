fn softened(x: [N, K]) -> p: [N, K]:
    e[n, k] = exp(x[n, k])
    p[n, k] = e[n, k] / sum[j](e[n, j])
