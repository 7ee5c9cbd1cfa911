model network(x: int[N], y: f8[N], z: probability[N]) -> w: [N]:
    w = x + y + z
