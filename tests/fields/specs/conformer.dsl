# Speech features from samples (frames, window, Fourier, mel filters, logarithm), then a conformer block and pooling.
fn log_mel(
    wave: [N, L], mel: [F, M], frame: size, hop: size
) -> y: [N, (L - frame) // hop + 1, M] where L >= frame, F == frame // 2 + 1:
    window[i: frame] = 0.5 - 0.5 * cos(2 * pi * i / frame)
    size P = (L - frame) // hop + 1
    cut[n, p: P, i] = wave[n, hop*p + i] * window[i]
    re[n, p, f], im[n, p, f] = fft[i -> f](cut[n, p, i])
    power = re[:, :, 0:F]^2 + im[:, :, 0:F]^2
    y[n, p, m] = log(power[n, p, f] * mel[f, m] + 1e-6)

layer convolution_module(x: [N, T, E], kernel = 5) -> y: [N, T, E]:
    h = (
        x
        |> layer_norm
        |> glu(E)
        |> depthwise_conv1d(kernel = kernel, pad = kernel // 2)
        |> layer_norm
        |> silu
    )
    y = dense(h, E)

layer conformer_block(x: [N, T, E], heads = 2) -> y: [N, T, E] where E % heads == 0:
    h = x + 0.5 * (x |> layer_norm |> feed_forward(4 * E, silu))
    h = h + (h |> layer_norm |> attention(heads, causal = false))
    h = h + convolution_module(h)
    h = h + 0.5 * (h |> layer_norm |> feed_forward(4 * E, silu))
    y = layer_norm(h)

model conformer(
    wave: f64[N, L], mel: f64[9, M], M = 6, width = 8, classes = 4
) -> logits: [N, classes] where L >= 16:
    z = log_mel(wave, mel, 16, 8)
    z[n, t, m] = (z[n, t, m] - mean[t](z[n, t, m])) / (std[t](z[n, t, m]) + 1e-5)
    h = dense(z, width)
    for l in 0..2:
        h = conformer_block(h)
    score = dense(h, 1)
    a[n, t] = softmax[t](score[n, t, 0])
    pooled[n, e] = a[n, t] * h[n, t, e]
    logits = dense(pooled, classes)

train conformer(wave, mel, label: i32[N] < classes):
    minimize cross_entropy(conformer(wave, mel), label)
    using adamw(lr = 1e-3)
