layer pooled(x: [N, T, K]) -> y: [N, K]:
    training:
        z[n, k] = mean[t](x[n, t, k])
    inference:
        z = x
    y = dense(z, K)
