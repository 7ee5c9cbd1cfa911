fn spread(x: [N]) -> y: [N]:
    y[2*n] += x[n]
