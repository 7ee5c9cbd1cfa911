fn added(x: [N], y: [M]) -> z: [N]:
    z = x + y
