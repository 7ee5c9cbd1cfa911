layer biased(x: [N, K], out: size) -> y: [N, O = out]:
    param b: [O] ~ zeros
    y[n, o] = sum[k](x[n, k])
    y[n, o] = y[n, o] + b[o]
