layer encoder(x: [N, D], latent: size) -> (mu: [N, latent], logvar: [N, latent]):
    h = x |> dense(6) |> tanh
    mu = dense(h, latent)
    logvar = dense(h, latent)

layer decoder(z: [..., L], D: size) -> logits: [..., D]:
    logits = z |> dense(6) |> tanh |> dense(D)

model vae(x: binary f32[N, D], eps: f32[N, S, latent], latent = 2) -> (bound: [N], weight: [N, S]):
    mu, logvar = encoder(x, latent)
    sigma = exp(logvar / 2)
    z[n, s, l] = mu[n, l] + sigma[n, l] * eps[n, s, l]
    logits = decoder(z, D)
    log_px[n, s] = sum[d](x[n, d] * logits[n, s, d] - log(1 + exp(logits[n, s, d])))
    log_pz[n, s] = sum[l](normal_log_density(z[n, s, l]))
    log_qz[n, s] = sum[l](normal_log_density(z[n, s, l], mu[n, l], sigma[n, l]))
    log_w[n, s] = log_px[n, s] + log_pz[n, s] - log_qz[n, s]
    bound[n] = log(mean[s](exp(log_w[n, s])))
    weight[n, s] = exp(log_w[n, s]) / sum[s](exp(log_w[n, s]))

train vae(x, eps):
    bound, weight = vae(x, eps)
    maximize mean(bound)
    using adam(lr = 1e-3)
