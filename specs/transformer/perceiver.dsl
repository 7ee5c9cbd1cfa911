# Perceiver: a few trained latents read a long input again and again (chapter 11).
# The cost is linear in the length of the input; every round uses the same parameters.

layer read(z: [N, M, E], x: [N, T, F], heads: int) -> y: [N, M, E] where E % heads == 0:
    h = z + cross_attention(layer_norm(z), layer_norm(x), heads)
    y = h + (h |> layer_norm |> feed_forward(2 * E))

model perceiver(
    x: f32[N, T, features],
    features = 16,
    latents = 8,
    width = 32,
    rounds = 3,
    heads = 4,
    classes = 10,
) -> logits: [N, classes] where width % heads == 0:
    param latent: [latents, width] ~ normal(0.02)
    use look = read(heads = heads)
    use think = transformer_block(heads, causal = false)
    z[n: N, m, e] = latent[m, e]
    for r in 0..rounds:
        z = look(z, x)
        z = think(z)
    logits = z |> global_avg_pool |> layer_norm |> dense(classes)

train perceiver(x, label: i32[N] < classes, batch = 32, epochs = 10):
    minimize cross_entropy(perceiver(x), label)
    using adamw(lr = 1e-3)
