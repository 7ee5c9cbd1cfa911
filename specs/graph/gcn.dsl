# Two graph convolutions that classify the nodes of one graph (chapter 12).
# Only some nodes have labels; the others take part through their features and edges.

model gcn(
    x: f32[V, features], src: i32[M] < V, dst: i32[M] < V, features = 16, hidden = 32, classes = 4
) -> logits: [V, classes]:
    w = symmetric_weights(src, dst, V)
    h = relu(graph_conv(x, src, dst, w, hidden)) |> dropout(0.5)
    logits = graph_conv(h, src, dst, w, classes)

train gcn(x, src, dst, label: i32[V] < classes, labelled: bool[V], epochs = 200):
    logits = gcn(x, src, dst)
    cost[v] = logsumexp[k](logits[v, k]) - logits[v, label[v]]
    count = sum[v](float(labelled[v]))
    minimize sum[v](cost[v] if labelled[v] else 0) / max(count, 1)
    metric accuracy = accuracy(logits, label)
    using adam(lr = 0.01)
