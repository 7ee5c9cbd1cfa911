# Layers over a graph with V nodes and M edges: edge m leads from node src[m] to node dst[m].
# Gathering reads node values at the edges; `+=` and `max=` collect edge values at the nodes.

# Graph convolution: each node sums its neighbours' projections, weighted by the edges.
layer graph_conv(x: [V, I], src: i32[M] < V, dst: i32[M] < V, w: [M], out: size) -> y: [V, O = out]:
    param W: [I, O] ~ glorot
    param b: [O] ~ zeros
    z[v, o] = x[v, i] * W[i, o] + b[o]
    y[dst[m], o] += w[m] * z[src[m], o]

# Graph convolution with the adjacency matrix itself, for small graphs and padded batches.
layer dense_graph_conv(x: [..., V, I], A: [..., V, V], out: size) -> y: [..., V, O = out]:
    param W: [I, O] ~ glorot
    param b: [O] ~ zeros
    z[..., v, o] = x[..., v, i] * W[i, o] + b[o]
    y[..., v, o] = A[..., v, u] * z[..., u, o]

# Polynomial graph convolution: neighbours at distance 0, 1 and 2, each with their weights.
layer poly_graph_conv(
    x: [V, I], src: i32[M] < V, dst: i32[M] < V, w: [M], out: size
) -> y: [V, O = out]:
    param W0, W1, W2: [I, O] ~ glorot
    param b: [O] ~ zeros
    once[dst[m]: V, i] += w[m] * x[src[m], i]
    twice[dst[m]: V, i] += w[m] * once[src[m], i]
    y[v, o] = x[v, i] * W0[i, o] + once[v, i] * W1[i, o] + twice[v, i] * W2[i, o] + b[o]

# The number of edges that arrive at each node.
fn degree(dst: i32[M] < nodes, nodes: size) -> d: [V = nodes]:
    d[dst[m]] += 1.0

# Edge weights 1 / sqrt(degree of one end * degree of the other).
fn symmetric_weights(src: i32[M] < nodes, dst: i32[M] < nodes, nodes: size) -> w: [M]:
    d = degree(dst, nodes)
    w[m] = 1 / sqrt(max(d[src[m]] * d[dst[m]], 1))

# Softmax among the edges that share a segment, such as those that arrive at one node.
fn segment_softmax(score: [M, H], segment: i32[M] < count, count: size) -> p: [M, H]:
    top[segment[m]: count, h] max= score[m, h]
    e[m, h] = exp(score[m, h] - stop_grad(top[segment[m], h]))
    total[segment[m]: count, h] += e[m, h]
    p[m, h] = e[m, h] / total[segment[m], h]

# Graph attention: neighbours weighted by a softmax of learnt scores, heads side by side.
layer gat(
    x: [V, I], src: i32[M] < V, dst: i32[M] < V, out: size, heads = 4, slope = 0.2
) -> y: [V, O = out] where out % heads == 0:
    param W: [I, H = heads, K = out / heads] ~ glorot
    param here, there: [H, K] ~ glorot
    z[v, h, k] = x[v, i] * W[i, h, k]
    p[v, h] = z[v, h, k] * here[h, k]
    q[v, h] = z[v, h, k] * there[h, k]
    score[m, h] = leaky_relu(p[dst[m], h] + q[src[m], h], slope)
    a = segment_softmax(score, dst, V)
    u[dst[m]: V, h, k] += a[m, h] * z[src[m], h, k]
    y[v, (h k)] = u[v, h, k]

# Graph attention whose ranking of neighbours depends on the node (GATv2).
layer gatv2(
    x: [V, I], src: i32[M] < V, dst: i32[M] < V, out: size, heads = 4, slope = 0.2
) -> y: [V, O = out] where out % heads == 0:
    param W, U: [I, H = heads, K = out / heads] ~ glorot
    param a: [H, K] ~ glorot
    p[v, h, k] = x[v, i] * W[i, h, k]
    q[v, h, k] = x[v, i] * U[i, h, k]
    e[m, h, k] = leaky_relu(p[dst[m], h, k] + q[src[m], h, k], slope)
    score[m, h] = e[m, h, k] * a[h, k]
    s = segment_softmax(score, dst, V)
    u[dst[m]: V, h, k] += s[m, h] * q[src[m], h, k]
    y[v, (h k)] = u[v, h, k]

# Each node's own projection plus that of the mean of its neighbours.
layer mean_graph_conv(x: [V, I], src: i32[M] < V, dst: i32[M] < V, out: size) -> y: [V, O = out]:
    param W, U: [I, O] ~ glorot
    param b: [O] ~ zeros
    total[dst[m]: V, i] += x[src[m], i]
    d = degree(dst, V)
    near[v, i] = total[v, i] / max(d[v], 1)
    y[v, o] = x[v, i] * W[i, o] + near[v, i] * U[i, o] + b[o]

# Each node's own projection plus the largest of its neighbours' projections (0 if alone).
layer max_graph_conv(x: [V, I], src: i32[M] < V, dst: i32[M] < V, out: size) -> y: [V, O = out]:
    param W, U: [I, O] ~ glorot
    param b: [O] ~ zeros
    z[v, o] = x[v, i] * U[i, o]
    top[dst[m]: V, o] max= z[src[m], o]
    d = degree(dst, V)
    near[v, o] = top[v, o] if d[v] > 0 else 0
    y[v, o] = x[v, i] * W[i, o] + near[v, o] + b[o]

# Message passing with any two layers: messages from both ends and the edge, summed, then updated.
layer message_passing(
    x: [V, I], edge: [M, D], src: i32[M] < V, dst: i32[M] < V, message: layer, update: layer
) -> y:
    ends[m, c] = concat[c](x[dst[m], c], x[src[m], c], edge[m, c])
    sent = message(ends)
    total[dst[m]: V, o] += sent[m, o]
    known[v, c] = concat[c](x[v, c], total[v, c])
    y = update(known)

# The mean of each graph's nodes, where graph[v] says to which graph node v belongs.
fn graph_mean(x: [V, E], graph: i32[V] < graphs, graphs: size) -> y: [G = graphs, E]:
    total[graph[v]: G, e] += x[v, e]
    number[graph[v]: G] += 1.0
    y[g, e] = total[g, e] / max(number[g], 1)
