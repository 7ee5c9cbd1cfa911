fn positive(x: [N]) -> y: [N]:
    y[n] = log(x[n]) if x[n] > 0 else 0
