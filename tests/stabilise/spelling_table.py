"""The table of naive spellings."""

from __future__ import annotations

from typing import Any

import mpmath as mp
from spellings import Spelling, cdf, covariance, logsumexp, sigmoid, softmax, softmaxes, total, variance


def _all(points: str) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(v) for v in p.split(",")) for p in points.split())


def one(
    formula: str, meaning: Any, points: str, *rules: str, tolerance: float = 1e-12, floor: float = 1e-300
) -> Spelling:
    """A formula in numbers."""
    return Spelling(formula, meaning, _all(points), rules, False, tolerance, floor)


def over_k(formula: str, meaning: Any, points: str, *rules: str, tolerance: float = 1e-12) -> Spelling:
    """A formula in one vector; points are separated by blanks."""
    return Spelling(formula, meaning, tuple((p,) for p in _all(points)), rules, True, tolerance)


def of_two(formula: str, meaning: Any, points: str, *rules: str, tolerance: float = 1e-12) -> Spelling:
    """A formula in two vectors; those of a point are separated by a semicolon."""
    pairs = tuple(tuple(_all(p.replace(";", " "))) for p in points.split())
    return Spelling(formula, meaning, pairs, rules, True, tolerance)


LOGITS = "1e4,-1e4,0 -1e4,-1e4,-9999 1,2,3 700,800,900 0,0,0"
SMALL = "1e-20 1e-8 0.5 -0.5 0"
TAILS = "-1000 -700 -50 0 50 1000"

NUMBERS = (
    # logarithms near 1
    one("log(1 + x)", lambda x: mp.log(1 + x), f"{SMALL} 1e10", "log_one_plus"),
    one("log(x + 1)", lambda x: mp.log(1 + x), SMALL, "log_one_plus"),
    one("log(1 - x)", lambda x: mp.log(1 - x), SMALL, "log_one_minus"),
    one("u = 1 + x\nlog(u)", lambda x: mp.log(1 + x), SMALL, "log_one_plus"),
    # exponentials near 0
    one("exp(x) - 1", mp.expm1, f"{SMALL} -50 50", "exp_minus_one"),
    one("1 - exp(x)", lambda x: -mp.expm1(x), f"{SMALL} -50 50", "one_minus"),
    one("(exp(x) - exp(-x)) / 2", mp.sinh, "1e-20 1e-8 3 -5", "hyperbolic_sine"),
    # softplus
    one("log(1 + exp(x))", lambda x: mp.log(1 + mp.exp(x)), f"{TAILS} 1e4", "log_sum_exp"),
    one("log(exp(-x) + 1)", lambda x: mp.log(1 + mp.exp(-x)), f"{TAILS} -1e4", "log_sum_exp"),
    one("log1p(exp(x))", lambda x: mp.log(1 + mp.exp(x)), f"{TAILS} 1e4", "softplus"),
    one("e = exp(x)\nlog(1 + e)", lambda x: mp.log(1 + mp.exp(x)), f"{TAILS} 1e4", "log_sum_exp"),
    # sums of exponentials and 1, at both ends
    *(one(formula, lambda x: mp.log1p(mp.exp(x) + mp.exp(2 * x)), f"{TAILS} -20 45 1e4", rule) for formula, rule in (
        ("log1p(exp(x) + exp(2 * x))", "softplus"),
        ("e = exp(x)\nlog1p(e + e^2)", "softplus"),
        ("log(1 + exp(x) + exp(x)^2)", "log_sum_exp"),
        ("log(exp(2 * x) + 1 + exp(x))", "log_sum_exp"),
    )),
    one("log1p(2 * exp(x))", lambda x: mp.log1p(2 * mp.exp(x)), f"{TAILS} -20 45 1e4", "softplus"),
    one("log(1 + 2 * exp(x))", lambda x: mp.log1p(2 * mp.exp(x)), f"{TAILS} -20 45 1e4", "log_sum_exp"),
    one("log1p(1e-9 * exp(x))", lambda x: mp.log1p(mp.mpf(1e-9) * mp.exp(x)), f"{TAILS} -20 20 1e4", "softplus"),
    one("log1p(x * exp(y))", lambda x, y: mp.log1p(x * mp.exp(y)), "0.5,-40 2,1000 1e-9,20 1e-9,900 -0.5,-3",
        "softplus"),
    one("log1p(exp2(x))", lambda x: mp.log1p(mp.mpf(2) ** x), f"{TAILS} 1e4", "softplus"),
    one("log(exp(x) - 1)", lambda x: mp.log(mp.expm1(x)), "1e-20 1e-3 1 50 1000 1e4", "log_of_difference"),
    # the logistic function
    one("1 / (1 + exp(-x))", sigmoid, TAILS, "logistic", floor=1e-15),
    one("exp(x) / (1 + exp(x))", sigmoid, TAILS, "logistic", floor=1e-15),
    one("exp(x) / (exp(x) + 1)", sigmoid, TAILS, "logistic", floor=1e-15),
    one("(1 + exp(-x))^-1", sigmoid, TAILS, "logistic_power", floor=1e-15),
    one("(1 + exp(-x))^-2", lambda x: sigmoid(x) ** 2, TAILS, "logistic_power", floor=1e-15),
    one("e = exp(-x)\n1 / (1 + e)", sigmoid, TAILS, "logistic", floor=1e-15),
    one("x / (1 + exp(-x))", lambda x: x * sigmoid(x), TAILS, "logistic"),
    one("exp(x) / (exp(x) + exp(y))", lambda x, y: sigmoid(x - y), "1e4,9999 -1e4,-9999 3,-900 0,0", "logistic"),
    one("1 - sigmoid(x)", lambda x: sigmoid(-x), TAILS, "one_minus", floor=1e-15),
    one("1 - 1 / (1 + exp(-x))", lambda x: sigmoid(-x), TAILS, "one_minus", floor=1e-15),
    one("sigmoid(x) * (1 - sigmoid(x))", lambda x: sigmoid(x) * sigmoid(-x), "-700 -30 0 30", "one_minus"),
    one("log(sigmoid(x))", lambda x: mp.log(sigmoid(x)), f"{TAILS} -1e4", "log_sigmoid"),
    one("log(1 / (1 + exp(-x)))", lambda x: mp.log(sigmoid(x)), f"{TAILS} -1e4", "log_sigmoid"),
    one("p = sigmoid(x)\nlog(p)", lambda x: mp.log(sigmoid(x)), TAILS, "log_sigmoid"),
    one("log(1 - sigmoid(x))", lambda x: mp.log(sigmoid(-x)), TAILS, "log_sigmoid"),
    one("p = sigmoid(x)\nlog(1 - p)", lambda x: mp.log(sigmoid(-x)), TAILS, "log_one_minus"),
    one("log1p(-sigmoid(x))", lambda x: mp.log(sigmoid(-x)), TAILS, "log1p_of_negative"),
    one("p = sigmoid(x)\n-(0.25 * log(p) + 0.75 * log(1 - p))",
        lambda x: -(mp.log(sigmoid(x)) + 3 * mp.log(sigmoid(-x))) / 4, TAILS, "log_sigmoid"),
    # hyperbolic tangents
    one("1 - tanh(x)^2", lambda x: mp.sech(x) ** 2, "-300 -20 0 0.1 20", "one_minus"),
    one("1 - tanh(x) * tanh(x)", lambda x: mp.sech(x) ** 2, "-300 -20 0 0.1 20", "one_minus"),
    one("log(1 - tanh(x)^2)", lambda x: mp.log(mp.sech(x) ** 2), "-900 -20 0.1 20", "log_of_product", "log_sigmoid"),
    one("t = tanh(x)\nlog(1 - t^2)", lambda x: mp.log(mp.sech(x) ** 2), "-900 -20 0.1 20", "log_one_minus"),
    one("1 + tanh(x)", lambda x: 2 * sigmoid(2 * x), "-300 -20 0 20", "one_plus", floor=1e-15),
    one("1 - tanh(x)", lambda x: 2 * sigmoid(-2 * x), "300 -20 0 20", "one_minus", floor=1e-15),
    one("(exp(x) - exp(-x)) / (exp(x) + exp(-x))", mp.tanh, "-1000 -3 1e-20 0.1 1000", "hyperbolic_tangent"),
    one("(exp(2 * x) - 1) / (exp(2 * x) + 1)", mp.tanh, "-1000 -3 1e-20 0.1 1000", "hyperbolic_tangent"),
    one("(1 - exp(-2 * x)) / (1 + exp(-2 * x))", mp.tanh, "-1000 -3 1e-20 0.1 1000", "hyperbolic_tangent"),
    one("2 * sigmoid(2 * x) - 1", mp.tanh, "-50 -1e-9 0 1e-9 3", "centred_sigmoid", floor=1e-15),
    *(one(formula, sigmoid, TAILS, rule, floor=1e-15) for formula, rule in (
        ("(1 + tanh(x / 2)) / 2", "one_plus"),
        ("0.5 * (tanh(0.5 * x) + 1)", "one_plus"),
        ("0.5 + 0.5 * tanh(x / 2)", "one_plus"),
        ("tanh(x / 2) / 2 + 0.5", "one_plus"),
        ("0.5 - 0.5 * tanh(-x / 2)", "one_minus"),
    )),
    *(one(f"{formula}\n-(0.25 * log(p) + 0.75 * log(1 - p))",
          lambda x: -(mp.log(sigmoid(x)) + 3 * mp.log(sigmoid(-x))) / 4, TAILS, *rules) for formula, *rules in (
        ("p = (1 + tanh(x / 2)) / 2", "one_plus", "half_of_twice"),
        ("p = 0.5 * (1 + tanh(x / 2))", "one_plus", "half_of_twice"),
        ("p = 0.5 + 0.5 * tanh(x / 2)", "one_plus"),
    )),
    one("t = tanh(x)\nlog(1 + t)", lambda x: mp.log(2 * sigmoid(2 * x)), "-900 -20 0.1 20", "log_one_plus"),
    one("1 / cosh(x)", mp.sech, "-1000 -700 -21 -19 -1e-9 0 0.1 3 700 1000", "hyperbolic_secant"),
    one("cosh(x)^-2", lambda x: mp.sech(x) ** 2, "-1000 -300 -3 -1e-9 0.1 3 300 1000", "hyperbolic_secant"),
    one("c = cosh(x)\n3 / c^2", lambda x: 3 * mp.sech(x) ** 2, "-1000 -300 -3 0.1 3 300", "hyperbolic_secant"),
    one("2 / (exp(x) + exp(-x))", mp.sech, "-1000 -700 -3 -1e-9 0.1 3 700 1000", "hyperbolic_secant"),
    one("log(1 / cosh(x))", lambda x: -mp.log(mp.cosh(x)), "-1000 -2 0 2 1000", "log_cosh"),
    *(one(formula, mp.tanh, "-1000 -3 1e-8 3 1000", "tangent_by_product", floor=1e-15) for formula in (
        "sinh(x) * (1 / cosh(x))", "c = cosh(x)\nc^-1 * sinh(x)")),
    one("log(cosh(x))", lambda x: mp.log(mp.cosh(x)), "-1000 -2 0 2 1000", "log_cosh"),
    one("log(2 * cosh(x))", lambda x: mp.log(2 * mp.cosh(x)), "-1000 -2 0 2 1000", "log_cosh"),
    # the error function
    one("1 - erf(x)", mp.erfc, "-5 0 1 6 20", "one_minus"),
    one("1 + erf(x)", lambda x: mp.erfc(-x), "5 0 -1 -6 -20", "one_plus"),
    one("1 - erfc(x)", mp.erf, "1e-20 0.3 5", "one_minus"),
    one("x * (1 + erf(x / sqrt(2))) / 2", lambda x: x * cdf(x), "-20 -5 0 0.5 20", "one_plus"),
    one("log(1 - erf(x))", lambda x: mp.log(mp.erfc(x)), "-3 0 1 1.5 30 1000", "log_erfc"),
    one("log(erfc(x))", lambda x: mp.log(mp.erfc(x)), "-3 0 1 1.5 30 1000", "log_erfc"),
    one("log((1 + erf(x / sqrt(2))) / 2)", lambda x: mp.log(cdf(x)), "-40 -3 0 3", "log_erfc", "log_of_product"),
    # logarithms of exponentials
    one("log(exp(x) + exp(y))", lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), "1e4,9999 -1e4,-9998 0,-50 -40,0 2,2",
        "log_sum_exp"),
    one("log(exp(x) + exp(y) + exp(x * y))", lambda x, y: mp.log(mp.exp(x) + mp.exp(y) + mp.exp(x * y)),
        "1e4,9999 -30,40 2,2", "log_sum_exp"),
    one("log(exp(x) - exp(y))", lambda x, y: mp.log(mp.exp(x) - mp.exp(y)), "1e4,9999 -999,-1000 2,-50 1e-9,-1e-9",
        "log_of_difference"),
    one("log(1 - exp(x))", lambda x: mp.log(-mp.expm1(x)), "-1e-20 -1e-3 -0.69 -1 -50 -800", "log_of_difference"),
    one("log1p(-exp(x))", lambda x: mp.log(-mp.expm1(x)), "-1e-20 -1e-3 -0.69 -1 -50 -800", "log1p_of_negative"),
    one("log(exp(x))", lambda x: x, "-1e4 0 1e4", "log_exp"),
    one("e = exp(x)\nlog(e)", lambda x: x, "-1e4 0 1e4", "log_exp"),
    one("exp(log(x))", lambda x: x, "1e-300 5 1e300", "exp_log", tolerance=1e-15),
    # products that leave the range
    one("log(x * y)", lambda x, y: mp.log(x * y), "1e-200,1e-200 1e200,1e300 2,3 -2,-3 -1e-200,-1e-200",
        "log_of_product"),
    one("log(x / y)", lambda x, y: mp.log(x / y), "1e-200,1e200 1e200,1e-200 2,3 -2,-3 1.0000001,1", "log_of_product"),
    one("log(x^2)", lambda x: 2 * mp.log(abs(x)), "1e-200 1e200 -3 -1e200", "log_power"),
    one("log(x * x)", lambda x: 2 * mp.log(abs(x)), "1e-200 1e200 -3 -1e200", "log_power"),
    one("log(x^3)", lambda x: 3 * mp.log(x), "1e-200 1e200 3", "log_power"),
    one("log(sqrt(x^4))", lambda x: 2 * mp.log(abs(x)), "1e-200 1e200 -3", "log_power"),
    one("log(rsqrt(x^4))", lambda x: -2 * mp.log(abs(x)), "1e-200 1e200 -3", "log_root"),
    one("exp(x) * exp(y)", lambda x, y: mp.exp(x + y), "1000,-1000 800,-790 1,2", "product_of_exponentials"),
    one("x * exp(x) * exp(y)", lambda x, y: x * mp.exp(x + y), "1000,-1000 800,-790 1,2", "product_of_exponentials"),
    one("exp(x) / exp(y)", lambda x, y: mp.exp(x - y), "1000,999 -1000,-999 1,2", "quotient_of_exponentials"),
    one("x / exp(y)", lambda x, y: x * mp.exp(-y), "2,1000 2,-5 -3,800", "quotient_of_exponentials"),
    one("x / (1 + exp(y))^2", lambda x, y: x * sigmoid(-y) ** 2, "2,1000 2,-5 -3,800", "logistic", floor=1e-15),
    one("log2(1 + x)", lambda x: mp.log(1 + x, 2), SMALL, "log_to_base"),
    one("log2(1 + exp2(x))", lambda x: mp.log(1 + mp.mpf(2) ** x, 2), "-3 0 50 1000 5000", "log_to_base"),
    # powers of a number
    *(one(formula, lambda x: mp.log(1 + mp.mpf(2) ** x, 2), "-60 -3 0 50 1000 5000", "log_to_base") for formula in (
        "log2(1 + 2^x)", "log2(2^x + 1)", "e = 2^x\nlog2(1 + e)")),
    one("2^x / (1 + 2^x)", lambda x: sigmoid(x * mp.log(2)), "-1500 -3 0 50 1500", "logistic", floor=1e-15),
    one("1 / (1 + 10^(-x / 4))", lambda x: sigmoid(x * mp.log(10) / 4), "-1500 -3 0 50 1500", "logistic", floor=1e-15),
    one("log(2^x)", lambda x: x * mp.log(2), "-5000 -3 0 5000", "log_exp"),
    one("log2(0.5^x)", lambda x: -x, "-5000 -3 0 5000", "log_exp"),
    one("log(2^x + 2^y)", lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y), "2000,1990 -1990,-2000 200,199 2,2",
        "log_sum_exp"),
    one("2^x - 1", lambda x: mp.expm1(x * mp.log(2)), f"{SMALL} -50 50", "exp_minus_one"),
    *(one(formula, lambda x: mp.tanh(x * mp.log(2)), "-1500 -3 1e-20 0.1 1500", "hyperbolic_tangent") for formula in (
        "(exp2(x) - exp2(-x)) / (exp2(x) + exp2(-x))", "(2^x - 2^(-x)) / (2^x + 2^(-x))",
        "(exp2(2 * x) - 1) / (exp2(2 * x) + 1)")),
    # powers in likelihoods
    *(one(formula, lambda x, y: -y * mp.log(sigmoid(x)) - (1 - y) * mp.log(sigmoid(-x)),
          "40,0 40,1 1000,0 -1000,1 -1000,0.25 0.5,0.75", "log_power") for formula in (
        "p = sigmoid(x)\n-log(p^y * (1 - p)^(1 - y))", "-log(sigmoid(x)^y * (1 - sigmoid(x))^(1 - y))",
        "p = (1 + tanh(x / 2)) / 2\nq = 1 - p\n-log(p^y * q^(1 - y))")),
    one("log(sigmoid(x)^0.25 * (1 - sigmoid(x))^0.75)",
        lambda x: (mp.log(sigmoid(x)) + 3 * mp.log(sigmoid(-x))) / 4, TAILS, "log_power"),
    one("sinh(x) / cosh(x)", mp.tanh, "-1000 -3 1e-8 3 1000", "hyperbolic_tangent", floor=1e-15),
    one("s = sinh(x)\nc = cosh(x)\nc / s", mp.coth, "-1000 -3 0.1 3 1000", "hyperbolic_tangent", floor=1e-15),
    one("log10(sigmoid(x))", lambda x: mp.log(sigmoid(x), 10), TAILS, "log_to_base"),
    one("log1p(exp(x) - 1)", lambda x: x, "1e-20 1e4 -3", "log1p_expm1"),
    one("exp(x) * x / (exp(x) + exp(y) + 1)", lambda x, y: x * mp.exp(x) / (mp.exp(x) + mp.exp(y) + 1),
        "1000,999 -5,1000 1,2", "softmax"),
    # roots
    one("sqrt(x * x + y * y)", mp.hypot, "1e200,1e200 1e-200,2e-200 3,4 0,2", "hypotenuse"),
    one("(x^2 + y^2)^0.5", mp.hypot, "1e200,1e200 1e-200,2e-200 3,4 0,2", "hypotenuse"),
    one("sqrt(x^2)", lambda x: abs(x), "1e200 -1e-200 3", "hypotenuse"),
)  # fmt: skip

VECTORS = (
    # softmax; x[0] is watched
    *(over_k(formula, lambda x: softmax(x, 0), LOGITS, *rules) for formula, *rules in (
        ("p[k] = exp(x[k]) / sum[j](exp(x[j]))\np[0]", "softmax"),
        ("e[k] = exp(x[k])\nexp(x[0]) / sum[k](e[k])", "softmax"),
        ("e[k] = exp(x[k])\ns = sum[k](e[k])\np[k] = e[k] / s\np[0]", "softmax"),
        ("exp(x[0]) * (1 / sum[k](exp(x[k])))", "softmax_by_product"),
        ("s = sum[k](exp(x[k]))\nexp(x[0]) * s^-1", "softmax_by_product"),
        ("p[k] = exp(x[k] - log(sum[j](exp(x[j]))))\np[0]", "log_sum_exp"),
        ("exp(x[0] - logsumexp[k](x[k]))", "log_sum_exp"),
        ("p[k] = exp(log_softmax[k](x[k]))\np[0]", "softmax"),
        ("p[k] = softmax[k](x[k])\np[0]", "softmax"),
        ("3 * exp(x[0]) / (3 * sum[k](exp(x[k])))", "softmax_over_product"),
        ("exp(x[0] - 5) / sum[k](exp(x[k] - 5))", "softmax"),
    )),
    over_k("exp(x[0]) / (1 + sum[k](exp(x[k])))", lambda x: mp.exp(x[0]) / (1 + total(mp.exp, x)), LOGITS, "softmax"),
    over_k("exp(x[0]) / (exp(2 * x[0]) + sum[k](exp(x[k])))",
           lambda x: mp.exp(x[0]) / (mp.exp(2 * x[0]) + total(mp.exp, x)), "1e4,-1e4,0 -1e4,-9999,5 1,2,3", "softmax"),
    over_k("sum[k](exp(x[k]) if k > 0 else 0) / sum[k](exp(x[k]))",
           lambda x: (mp.exp(x[1]) + mp.exp(x[2])) / total(mp.exp, x), "1e4,9999,0 1,2,3 -1e4,-1e4,-9999", "softmax"),
    over_k("exp(x[1]) / sum[k](exp(x[k]) if k > 0 else 0)",
           lambda x: mp.exp(x[1]) / (mp.exp(x[1]) + mp.exp(x[2])), "1e4,50,49 1,2,3 0,-1e4,-9999", "softmax"),
    # logarithms of sums
    over_k("log(sum[k](exp(x[k])))", logsumexp, LOGITS, "log_sum_exp"),
    over_k("s = sum[k](exp(x[k]))\nlog(s)", logsumexp, LOGITS, "log_sum_exp"),
    over_k("log(mean[k](exp(x[k])))", lambda x: logsumexp(x) - mp.log(3), LOGITS, "log_of_product", "log_sum_exp"),
    over_k("log(1 + sum[k](exp(x[k])))", lambda x: mp.log(1 + total(mp.exp, x)), LOGITS, "log_sum_exp"),
    over_k("log1p(sum[k](exp(x[k])))", lambda x: mp.log(1 + total(mp.exp, x)), f"{LOGITS} -20,-30,-50", "softplus"),
    over_k("log1p(2 * exp(max[k](x[k])))", lambda x: mp.log1p(2 * mp.exp(max(x))), "1e4,-1e4,0 1,2,3 -20,-30,-50",
           "softplus"),
    over_k("log(sum[k](exp(x[k])) + 1 + sum[k](exp(2 * x[k])))",
           lambda x: mp.log(1 + total(mp.exp, x) + total(mp.exp, [2 * v for v in x])), f"{LOGITS} -20,-30,-50 45,30,1",
           "log_sum_exp"),
    over_k("log(2 * sum[k](exp(x[k])))", lambda x: logsumexp(x) + mp.log(2), LOGITS, "log_of_product"),
    # log of softmax; cross-entropy
    *(over_k(formula, lambda x: mp.log(softmax(x, 1)), f"{LOGITS} 0,-92.1,3", *rules) for formula, *rules in (
        ("p[k] = softmax[k](x[k])\nlog(p[1])", "log_of_product"),
        ("p[k] = exp(x[k]) / sum[j](exp(x[j]))\nlog(p[1])", "log_of_product"),
        ("p[k] = log(softmax[k](x[k]))\np[1]", "log_of_product"),
        ("x[1] - log(sum[k](exp(x[k])))", "log_sum_exp"),
        ("log(exp(x[1])) - log(sum[k](exp(x[k])))", "log_sum_exp"),
        ("log(exp(x[1]) / sum[k](exp(x[k])))", "softmax"),
        ("sum[k](log_softmax[k](x[k]) if k == 1 else 0)", "log_of_product"),
    )),
    over_k("x[1] - logsumexp[k](x[k])", lambda x: x[1] - logsumexp(x), "1e8,100000001,99999999 3,2,1", "minus_log_sum",
           tolerance=1e-14),
    over_k("p[k] = exp(log_softmax[k](x[k]))\np[0]", lambda x: softmax(x, 0), "-600,0,0 1,2,3", "exp_of_log_share",
           tolerance=1e-14),
    # weights
    of_two("sum[k](exp(x[k]) * y[k]) / sum[k](exp(x[k]))",
           lambda x, y: mp.fsum(mp.exp(a) * b for a, b in zip(x, y, strict=True)) / total(mp.exp, x),
           "1e4,9999,0;1,2,3 -1e4,-1e4,-9999;1,2,3 1,2,3;0.5,2,-1", "softmax"),
    of_two("log(sum[k](y[k] * exp(x[k])))",
           lambda x, y: mp.log(mp.fsum(mp.exp(a) * b for a, b in zip(x, y, strict=True))),
           "1e4,9999,0;1,2,3 -1e4,-1e4,-9999;1,2,3 1,2,3;0.5,2,1", "log_sum_exp"),
    of_two("exp(x[1]) * y[1] / sum[k](exp(x[k]) * y[k])",
           lambda x, y: mp.exp(x[1]) * y[1] / mp.fsum(mp.exp(a) * b for a, b in zip(x, y, strict=True)),
           "1e4,9999,0;1,2,3 -1e4,-1e4,-9999;1,2,3 1,2,3;0.5,2,1", "softmax"),
    of_two("log(sum[k](exp(-(x[k] - 3)^2 / (2 * y[k]^2)) / y[k]))",
           lambda x, y: mp.log(mp.fsum(mp.exp(-((a - 3) ** 2) / (2 * b * b)) / b for a, b in zip(x, y, strict=True))),
           "200,150,-300;1,2,3 1,2,3;0.5,2,1", "log_sum_exp"),
    over_k("log(exp(-x[0]^2 / 2) / sqrt(2 * pi))", lambda x: -x[0] ** 2 / 2 - mp.log(2 * mp.pi) / 2,
           "100,0,0 1,0,0", "log_of_product"),
    # weights that take away the largest terms
    *(over_k(f"o[k: K] = 1.0 if k == 0 else 0.0\n{formula}", lambda x: mp.log(softmax(x, 0)),
             "-5000,4000,1 1,2,3 4000,1,2", "log_sum_exp") for formula in (
        "p[k] = softmax[k](x[k])\nlog(sum[k](o[k] * p[k]))",
        "m = max[k](x[k])\ne[k] = exp(x[k] - m)\nz = sum[k](e[k])\nlog(sum[k](e[k] / z * o[k]))",
        "p[k] = softmax[k](x[k])\nlog(o[0] * p[0] + o[1] * p[1] + o[2] * p[2])")),
    over_k("p[k] = softmax[k](x[k])\nlog(p[0] / 2 + p[2])", lambda x: mp.log(softmax(x, 0) / 2 + softmax(x, 2)),
           "-5000,4000,1 1,2,3", "log_sum_exp"),
    # products
    over_k("log(prod[k](x[k]))", lambda x: mp.log(mp.fprod(x)),
           "1e-200,1e-200,1e-9 1e200,1e200,5 -2,-3,4 1,2,3", "log_prod"),
    over_k("p = prod[k](sigmoid(x[k]))\nlog(p)", lambda x: mp.log(mp.fprod(sigmoid(v) for v in x)),
           "-900,-800,3 1,2,3", "log_prod"),
    of_two("p[k] = softmax[k](y[k])\nlog(prod[n: 2](sum[k](p[k] * exp((2 * n - 1) * x[k]))))",
           lambda x, y: mp.fsum(mp.log(mp.fsum(p * mp.exp(s * a) for p, a in zip(softmaxes(y), x, strict=True)))
                                for s in (-1, 1)),
           "2000,1900,1950;1,2,3 -900,0,1;0,0,5 1,2,3;0.5,0,1", "log_prod", "log_sum_exp"),
    of_two("p[k] = softmax[k](x[k])\nlog(prod[k](p[k]^y[k]))",
           lambda x, y: mp.fsum(b * mp.log(p) for p, b in zip(softmaxes(x), y, strict=True)),
           "-5000,4000,1;1,0,0 1,2,3;0.5,0,1", "log_prod", "log_power"),
    # norms
    *(over_k(formula, lambda x: mp.sqrt(mp.fsum(v * v for v in x)), "1e200,1e200,3 1e-200,2e-200,0 1,2,3", "norm")
      for formula in ("sqrt(sum[k](x[k]^2))", "norm[k](x[k])", "sum[k](x[k] * x[k])^0.5")),
    *(over_k(formula, lambda x: mp.sqrt(mp.fsum(v * v for v in x)), "1e200,1e200,3 1e-200,2e-200,0 1,2,3", rule, "norm")
      for formula, rule in (
          ("1 / rsqrt(sum[k](x[k]^2))", "root_by_quotient"),
          ("1 / sum[k](x[k]^2)^-0.5", "root_by_quotient"),
          ("exp(log(sum[k](x[k]^2)) / 2)", "root_by_logarithm"),
          ("s = sum[k](x[k]^2)\nl = log(s)\nexp(0.5 * l)", "root_by_logarithm"))),
    over_k("sqrt(mean[k](x[k]^2))", lambda x: mp.sqrt(mp.fsum(v * v for v in x) / 3),
           "1e200,1e200,3 1e-200,2e-200,0 1,2,3", "norm"),
    # variances
    *(over_k(formula, variance, "100000000,100000001,100000003 1,2,4 -1e9,-999999999,-1e9", "covariance",
             tolerance=1e-9) for formula in (
        "mean[k](x[k]^2) - mean[k](x[k])^2",
        "m = mean[k](x[k])\ns = mean[k](x[k] * x[k])\ns - m^2",
        "m = mean[k](x[k])\nmean[k](x[k]^2) - m * m",
        "(sum[k](x[k]^2) - sum[k](x[k])^2 / K) / K",
        "m = sum[k](x[k]) / K\n(sum[k](x[k]^2) - K * m^2) / K",
    )),
    over_k("(x[0] - mean[k](x[k])) / sqrt(mean[k](x[k]^2) - mean[k](x[k])^2)",
           lambda x: (x[0] - mp.fsum(x) / 3) / mp.sqrt(variance(x)), "100000000,100000001,100000003 1,2,4",
           "covariance", tolerance=1e-7),
    of_two("mean[k](x[k] * y[k]) - mean[k](x[k]) * mean[k](y[k])", covariance,
           "100000000,100000001,100000003;200000000,100000001,50000003 1,2,4;3,2,7", "covariance", tolerance=1e-9),
)  # fmt: skip

SPELLINGS = (*NUMBERS, *VECTORS)
