fn table(x: [4, 1], y: [4]) -> z: [4, 4]:
    z[i, j] = x[i, 0] + y[j]
