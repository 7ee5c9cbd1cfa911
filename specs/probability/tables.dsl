# Two variables, one joint table of probabilities: marginals, conditionals, Bayes and independence (appendix A).

model tables(
    joint: f64[R, W]
) -> (
    p_w: [W],
    p_r: [R],
    r_given_w: [R, W],
    by_bayes: [R, W],
    product: [R, W],
    mean: [],
    second: [],
    spread: [],
):
    p_w = marginal(joint)
    turned[w, r] = joint[r, w]
    p_r = marginal(turned)
    r_given_w = conditional(joint)
    w_given_r[r, w] = joint[r, w] / p_r[r]
    by_bayes = bayes(w_given_r, p_r)
    product[r, w] = p_r[r] * p_w[w]
    mean = expectation[w](p_w[w], w + 1)
    second = expectation[w](p_w[w], (w + 1)^2)
    spread = second - mean^2
