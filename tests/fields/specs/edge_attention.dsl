layer edge_gat(
    x: [V, I], src: i32[M] < V, dst: i32[M] < V, e: [M, F], heads: int, out: size
) -> y: [V, heads * out]:
    param Wl, Wr: [I, H = heads, D = out] ~ glorot
    param We: [F, H, D] ~ glorot
    param a: [H, D] ~ glorot
    left[v, h, d] = x[v, i] * Wl[i, h, d]
    right[v, h, d] = x[v, i] * Wr[i, h, d]
    edge[m, h, d] = e[m, f] * We[f, h, d]
    z[m, h, d] = leaky_relu(left[src[m], h, d] + right[dst[m], h, d] + edge[m, h, d], slope = 0.2)
    score[m, h] = a[h, d] * z[m, h, d]
    weight[dst[m], h] += exp(score[m, h])
    alpha[m, h] = exp(score[m, h]) / weight[dst[m], h]
    out_[dst[m], h, d] += alpha[m, h] * left[src[m], h, d]
    y[v, (h d)] = out_[v, h, d]

model net(x: f32[V, I], src: i32[M] < V, dst: i32[M] < V, e: f32[M, F], I = 3, F = 2) -> y: [V, 2]:
    h = edge_gat(x, src, dst, e, 2, 3) |> elu
    y = edge_gat(h, src, dst, e, 1, 2)

train net(x, src, dst, e, label: i32[V] < 2, known: bool[V]):
    y = net(x, src, dst, e)
    nll[v] = logsumexp[k](y[v, k]) - y[v, label[v]]
    minimize sum[v](nll[v] if known[v] else 0) / max(1, sum[v](1 if known[v] else 0))
    using adam()
