# How a gradient fades or grows with depth (section 6.4.3): a chain of one unit per layer, as deep as w is long. At 0
# a sigmoid passes on a quarter of the adjoint, relu all or nothing of it, and a slope of 2 doubles it in every layer.

fn centred_sigmoid(s) = sigmoid(s) - 0.5
fn doubled(s) = 2 * s

layer chain(x: [], w: [L], act: fn) -> (y: [], slope: []):
    scan l:
        h[l] = act(w[l] * h[l-1])
    start h = x
    y = h[L-1]
    slope = grad(y, x)

model depth(
    x: f32[], w: f32[L]
) -> (y: [], by_sigmoid: [], by_tanh: [], by_relu: [], by_doubled: []):
    fading, by_sigmoid = chain(x, w, centred_sigmoid)
    bent, by_tanh = chain(x, w, tanh)
    kept, by_relu = chain(x, w, relu)
    growing, by_doubled = chain(x, w, doubled)
    y = fading + bent + kept + growing
