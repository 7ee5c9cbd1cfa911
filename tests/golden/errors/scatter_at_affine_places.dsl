fn spread(x: [N]) -> y:
    y[2*n] += x[n]
