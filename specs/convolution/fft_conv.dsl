# A convolution as long as the sequence, computed by Fourier transforms (chapters 7, 13).
# A product of spectra is a cyclic convolution; the doubled length leaves room for its tail.

layer long_conv(x: [N, T, C]) -> y: [N, T, C]:
    param K: [T, C] ~ normal(0.1)
    size L = 2 * T
    signal[n, t: L, c] = (x[n, t, c] else 0)
    kernel[t: L, c] = (K[t, c] else 0)
    xr[n, f, c], xi[n, f, c] = fft[t -> f](signal[n, t, c])
    kr[f, c], ki[f, c] = fft[t -> f](kernel[t, c])
    yr[n, f, c] = xr[n, f, c] * kr[f, c] - xi[n, f, c] * ki[f, c]
    yi[n, f, c] = xr[n, f, c] * ki[f, c] + xi[n, f, c] * kr[f, c]
    real[n, t, c], imaginary[n, t, c] = ifft[f -> t](yr[n, f, c], yi[n, f, c])
    y = real[:, 0:T, :]

model fft_conv(x: f32[N, 128, 1], width = 8, classes = 4) -> logits: [N, classes]:
    h = x |> dense(width) |> long_conv |> gelu |> long_conv |> gelu
    logits = h |> global_avg_pool |> dense(classes)

train fft_conv(x, label: i32[N] < classes, batch = 32, epochs = 10):
    minimize cross_entropy(fft_conv(x), label)
    using adam(lr = 1e-3)
