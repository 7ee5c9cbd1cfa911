# Two graph convolutions that classify the nodes of one graph.

model graph(
    x: f32[V, features], src: i32[M] < V, dst: i32[M] < V, features = 64, hidden = 64, classes = 16
) -> logits: [V, classes]:
    w = symmetric_weights(src, dst, V)
    h = relu(graph_conv(x, src, dst, w, hidden))
    logits = graph_conv(h, src, dst, w, classes)

train graph(x, src, dst, label: i32[V] < classes):
    minimize cross_entropy(graph(x, src, dst), label)
    using adam(lr = 0.01)
