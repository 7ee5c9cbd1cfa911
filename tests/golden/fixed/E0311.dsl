fn ranked(x: [N, K]) -> y: [N, K]:
    y[n, k] = x[n, k] / max[j](x[n, j])
