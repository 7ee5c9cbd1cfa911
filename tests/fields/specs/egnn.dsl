# An equivariant graph network: messages from distances, coordinates that move along differences, energy and forces.
layer egnn_layer(
    h: [V, E], x: [V, 3], src: i32[M] < V, dst: i32[M] < V
) -> (h_next: [V, E], x_next: [V, 3]):
    d2[m] = sum[c]((x[src[m], c] - x[dst[m], c])^2)
    pair[m, i] = concat[i](h[src[m], i], h[dst[m], i], d2[m])
    message = pair |> dense(E) |> silu |> dense(E) |> silu
    shift = message |> dense(E) |> silu |> dense(1, bias = false)
    x_next = x
    x_next[dst[m], c] += (x[dst[m], c] - x[src[m], c]) * shift[m, 0] / (sqrt(d2[m]) + 1)
    total[dst[m]: V, e] += message[m, e]
    both[v, i] = concat[i](h[v, i], total[v, i])
    h_next = h + (both |> dense(E) |> silu |> dense(E))

model egnn(
    kind: i32[V] < 5,
    x: f64[V, 3],
    src: i32[M] < V,
    dst: i32[M] < V,
    graph: i32[V] < G,
    G = 2,
    width = 6,
) -> (energy: [G], force: [V, 3]):
    h = embedding(kind, 5, width)
    y = x
    for l in 0..2:
        h, y = egnn_layer(h, y, src, dst)
    e = h |> dense(width) |> silu |> dense(1)
    energy[graph[v]] += e[v, 0]
    total = sum(energy)
    force = -grad(total, x)

train egnn(kind, x, src, dst, graph, target: f64[G], pull: f64[V, 3]):
    energy, force = egnn(kind, x, src, dst, graph)
    minimize mean_squared_error(energy, target) + 10 * mean_squared_error(force, pull)
    using adam(lr = 1e-3)
