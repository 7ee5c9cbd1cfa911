# A graph transformer: nodes attend to all nodes and know the graph by random walks (chapter 12).
# The chance to be back at the start after 1, 2, ... steps tells a node where it is.

# Features from the diagonals of the powers of the walk matrix A / degree.
layer walk_embedding(A: [V, V], width: size, steps = 8) -> y: [V, E = width]:
    param W: [steps, E] ~ glorot
    d[u] = sum[v](A[v, u])
    R[v, u] = A[v, u] / max(d[u], 1)
    scan k in 0..steps:
        walk[k, v, u] = walk[k-1, v, j] * R[j, u]
    start walk[v: V, u: V] = 1.0 if v == u else 0.0
    y[v, e] = walk[k, v, v] * W[k, e]

model graph_transformer(
    x: f32[V, features], A: f32[V, V], features = 16, width = 32, depth = 2, heads = 4, classes = 4
) -> logits: [V, classes] where width % heads == 0:
    h = dense(x, width) + walk_embedding(A, width)
    token[n: 1, v, e] = h[v, e]
    for l in 0..depth:
        token = token |> transformer_block(heads, causal = false)
    logits = token[0, :, :] |> layer_norm |> dense(classes)

train graph_transformer(x, A, label: i32[V] < classes, epochs = 100):
    logits = graph_transformer(x, A)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 1e-3)
