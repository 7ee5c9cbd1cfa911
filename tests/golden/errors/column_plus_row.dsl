fn table(x: [4, 1], y: [4]) -> z: [4, 4]:
    z = x + y
