# Soft shortest paths between all nodes by a smoothed Floyd-Warshall, with edge costs from a network.
model shortest_paths(x: f64[V, F], edge: bool[V, V], F = 3, temperature = 0.1) -> distance: [V, V]:
    pair[i, j, k] = concat[k](x[i, k], x[j, k])
    raw = pair |> dense(8) |> tanh |> dense(1)
    cost[i, j] = 0 if i == j else softplus(raw[i, j, 0]) if edge[i, j] else 100
    scan k in 0..V:
        d[k, i, j] = (
            -temperature
            * log(
                exp(-d[k-1, i, j] / temperature) + exp(-(d[k-1, i, k] + d[k-1, k, j]) / temperature)
            )
        )
    start d = cost
    distance = d[V-1, :, :]

train shortest_paths(x, edge, target: f64[V, V]):
    minimize mean_squared_error(shortest_paths(x, edge), target)
    using adam(lr = 1e-2)
