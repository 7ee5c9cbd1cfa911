# Message passing on a batch of graphs with features on nodes, edges and graphs (chapter 12).
# All graphs of a batch stand in one list of nodes; graph[v] says where node v belongs.

layer two_dense(x: [..., I], hidden: size, out: size) -> y: [..., out]:
    y = x |> dense(hidden) |> silu |> dense(out)

# Edges learn from their ends before they carry messages.
layer update_edges(x: [V, I], edge: [M, D], src: i32[M] < V, dst: i32[M] < V) -> y: [M, D]:
    ends[m, c] = concat[c](edge[m, c], x[src[m], c], x[dst[m], c])
    y = edge + two_dense(ends, 2 * D, D)

model mpnn(
    x: f32[V, features],
    edge: f32[M, kinds],
    src: i32[M] < V,
    dst: i32[M] < V,
    graph: i32[V] < G,
    whole: f32[G, extras],
    features = 8,
    kinds = 4,
    extras = 2,
    width = 32,
    rounds = 3,
) -> y: [G]:
    h = dense(x, width)
    e = dense(edge, width)
    for r in 0..rounds:
        h = (
            h
            + message_passing(
                h, e, src, dst, two_dense(hidden = width, out = width), two_dense(width, width)
            )
        )
        e = update_edges(h, e, src, dst)
    pooled = graph_mean(h, graph, G)
    lowest[graph[v]: G, c] min= h[v, c]
    lowest[g, c] = clip(lowest[g, c], -10, 10)
    known[g, c] = concat[c](pooled[g, c], lowest[g, c], whole[g, c])
    out = two_dense(known, width, 1)
    y = out[:, 0]

train mpnn(x, edge, src, dst, graph, whole, target: f32[G], epochs = 50):
    y = mpnn(x, edge, src, dst, graph, whole)
    minimize huber(y, target)
    using adam(lr = 1e-3)
