layer noisy(x: [N, K]) -> y: [N, K]:
    training:
        z[n, k] = x[n, k] + normal[n, k](0, 0.1)
    inference:
        z = x
    y = dense(z, K)
