fn spread(x: [N]) -> y:
    y[2*n: 2*N - 1] += x[n]
