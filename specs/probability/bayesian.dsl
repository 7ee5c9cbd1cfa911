# Bayesian learning of a slope (chapter 3): each candidate on a grid gets the probability that it made the data. The
# posterior of the first half of the data is the prior of the second half. Predictions are averages over candidates, by
# their weights or by draws from the posterior.

model bayesian(
    x: f64[N], y: f64[N], x_new: f64[], grid = 41, sigma = 0.5, draws = 64
) -> (posterior: [G = grid], step_by_step: [G], prediction: [], drawn: []):
    slope[g: grid] = -2 + 4 * g / grid
    log_p[g, n] = normal_log_density(y[n], slope[g] * x[n], sigma)
    prior[g] = normal_log_density(slope[g])
    posterior[g] = softmax[g](prior[g] + sum[n](log_p[g, n]))
    first[g] = log_softmax[g](prior[g] + sum[n](log_p[g, n] if n < N // 2 else 0))
    step_by_step[g] = softmax[g](first[g] + sum[n](log_p[g, n] if n >= N // 2 else 0))
    prediction = expectation[g](posterior[g], slope[g] * x_new)
    choice[k: draws] = argmax[g](log(posterior[g]) + gumbel[k, g]())
    drawn = mean[k](slope[choice[k]] * x_new)
