# A gated network: each block multiplies a linear map by the gate of another (chapters 5, 11).

layer gated_block(x: [N, E], hidden: size, kind = "swiglu") -> y: [N, E]:
    u = layer_norm(x)
    if kind == "swiglu":
        h = swiglu(u, hidden)
    elif kind == "glu":
        h = glu(u, hidden)
    else:
        h = gelu(dense(u, hidden))
    y = x + dense(h, E)

model glu_network(
    x: f32[N, 64], width = 64, hidden = 128, depth = 3, classes = 10
) -> logits: [N, classes]:
    h = dense(x, width)
    for l in 0..depth:
        h = gated_block(h, hidden, "glu" if l == 0 else "swiglu")
    logits = h |> layer_norm |> dense(classes)

train glu_network(x, label: i32[N] < classes, batch = 64, epochs = 20):
    minimize cross_entropy(glu_network(x), label)
    using adamw(lr = 1e-3)
