fn positive(x: [N]) -> y: [N]:
    y[n] = (log(x[n]) else 0)
