# Graph attention: neighbours weighted by learnt scores, then edges predicted from their two
# ends (chapter 12).

model graph_attention(
    x: f32[V, features], src: i32[M] < V, dst: i32[M] < V, features = 16, hidden = 32
) -> (edge_logit: [M], h: [V, hidden]) where hidden % 4 == 0:
    u = elu(gat(x, src, dst, hidden, heads = 4))
    h = gatv2(u, src, dst, hidden, heads = 4)
    edge_logit[m] = h[src[m], k] * h[dst[m], k] / sqrt(hidden)

train graph_attention(x, src, dst, present: binary f32[M], epochs = 100):
    logit, h = graph_attention(x, src, dst)
    minimize binary_cross_entropy(logit, present) + 1e-4 * l2(h)
    metric accuracy = binary_accuracy(logit, present)
    using adam(lr = 5e-3)
