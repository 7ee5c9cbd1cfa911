fn last_two(x: [N, T]) -> (y: [N], z: [N]):
    y[n] = x[n, -1]
    z[n] = x[n, T - 2]
