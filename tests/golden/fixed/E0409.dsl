fn wrapped(angle: [N]) -> y: [N]:
    y[n] = angle[n] - 2 * pi * floor(angle[n] / (2 * pi))
