fn added(x: [N], y: [M]) -> z: [N] where N == M:
    z = x + y
