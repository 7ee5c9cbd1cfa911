# Gradient checkpointing (section 6.3): of four blocks, what the third one computes is not kept for the backward pass
# but computed again from the output of the second.

layer block(x: [N, E]) -> y: [N, E]:
    y = x |> dense(4 * E) |> tanh |> dense(E) |> tanh

model checkpointed(x: f32[N, 16], spare = true) -> y: [N, 16]:
    h = x |> block |> block
    if spare:
        checkpoint:
            h = h |> block
    else:
        h = h |> block
    y = h |> block

train checkpointed(x, target: f32[N, 16]):
    minimize mean_squared_error(checkpointed(x), target)
    using sgd(lr = 0.1)
