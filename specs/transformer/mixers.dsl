# Ways to mix tokens, to be passed to a block (chapter 11). Each maps [N, T, E] to [N, T, E].

# The mean of each token and its two neighbours, less the token itself.
layer pool_mixer(x: [N, T, E]) -> y: [N, T, E]:
    near[n, t: T, e] = mean[u: 3](x[n, clamp(t + u - 1), e])
    y = near - x

# The real part of the Fourier transform along tokens and channels.
layer fourier_mixer(x: [N, T, E]) -> y: [N, T, E]:
    ar[n, f, e], ai[n, f, e] = fft[t -> f](x[n, t, e])
    br[n, f, g], bi[n, f, g] = fft[e -> g](ar[n, f, e], ai[n, f, e])
    y = br

# A third of the channels moves one token forward, a third one backward, the rest stays.
layer shift_mixer(x: [N, T, E]) -> y: [N, T, E]:
    ahead[n, t: T, e] = (x[n, t-1, e] else 0)
    back[n, t: T, e] = (x[n, t+1, e] else 0)
    moved[n, t, e] = ahead[n, t, e] if e % 3 == 0 else back[n, t, e] if e % 3 == 1 else x[n, t, e]
    y = dense(moved, E)

# A depthwise convolution along the tokens.
layer conv_mixer(x: [N, T, E], kernel = 3) -> y: [N, T, E] where kernel % 2 == 1:
    y = x |> depthwise_conv1d(kernel, pad = kernel // 2)
