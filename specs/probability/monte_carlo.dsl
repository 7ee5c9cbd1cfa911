# An expectation as the mean over draws (appendix A), and the risk of a model on data that it has not seen, as the mean
# loss over new examples (chapter 3).

model monte_carlo(w: f64[D], draws = 256) -> (second: [], shares: [3], risk: []):
    z[s: draws] = normal[s]()
    second = mean[s](z[s]^2)
    u[s: draws] = uniform[s]()
    ticket[s] = 0 if u[s] < 0.6 else 1 if u[s] < 0.9 else 2
    shares[k: 3] = mean[s](1.0 if ticket[s] == k else 0.0)
    x[s: draws, i: D] = normal[s, i]()
    target[s] = sum[i](x[s, i]) + normal[s](0, 0.5)
    risk = mean[s]((x[s, i] * w[i] - target[s])^2)
