layer mixed(x: [N, K], z: [N, K], α = 0.5) -> y: [N, K]:
    u = α * x + (1 - α) * z
    y = dense(u, K)
