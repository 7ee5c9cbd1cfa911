# WaveNet: gated causal convolutions whose dilation doubles, for sound as tokens (chapter 8).
# Every position predicts the next sample.

layer wave_block(x: [N, T, C], dilation: int) -> (y: [N, T, C], skip: [N, T, C]):
    signal = x |> causal_conv1d(C, kernel = 2, dilation = dilation) |> tanh
    gate = x |> causal_conv1d(C, kernel = 2, dilation = dilation) |> sigmoid
    h = signal * gate
    y = x + dense(h, C)
    skip = dense(h, C)

model wavenet(
    sample: i32[N, T] < levels, levels = 256, width = 32, depth = 8
) -> logits: [N, T, levels]:
    h = sample |> embedding(levels, width)
    total[n: N, t: T, c: width] = 0.0
    for l in 0..depth:
        h, skip = wave_block(h, dilation = 2^l)
        total += skip
    logits = total |> relu |> dense(width) |> relu |> dense(levels)

train wavenet(sample, batch = 8, epochs = 10) where T >= 2:
    logits = wavenet(sample)
    minimize cross_entropy(logits[:, 0:T-1, :], sample[:, 1:T])
    using adam(lr = 1e-3)
