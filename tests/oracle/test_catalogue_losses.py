"""Rows of the catalogue on losses, linear models and probability (chapters 3 and 4, appendix A)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from catalogue import Case, between_0_and_1, binary, cases, check, covariance, given, positive, signs, simplex
from torch import distributions as dist
from torch.nn import functional as F

torch.set_num_threads(1)

PAIR = {"p": "[N]", "t": "[N]"}
LABELLED = {"z": "[N, K]", "label": "i32[N] < K"}


def hot(label: torch.Tensor) -> torch.Tensor:
    return F.one_hot(label, 4).double()


LOSSES = cases(
    Case("D10 L01 F12", PAIR, "[]", "y = mean[n]((p[n] - t[n])^2)", F.mse_loss),
    Case("D10 L01 F12", PAIR, "[]", "y = mean_squared_error(p, t)", F.mse_loss),
    Case("D11", {"p": "[N]", "s": "[N]"}, "[]", "y = mean[n](0.0 if sign(p[n]) == s[n] else 1.0)",
         lambda p, s: (torch.sign(p) != s).double().mean() + 0 * p.sum(), {"s": signs}, ("s",)),
    Case("D12 D13", {"p": "[N]", "s": "[N]"}, "[]", "y = hinge(p, s)",
         lambda p, s: torch.clamp(1 - s * p, min=0).mean(), {"s": signs}),
    Case("D13", {"p": "[5]"}, "[5]", "y = max(0, 1 - p)",
         lambda p: torch.tensor([2, 1, 0.5, 0, 0], dtype=torch.float64), {"p": given(-1, 0, 0.5, 1, 2)}, ("p",)),
    Case("D17 Q07", {"f": "[N, K]", "label": "i32[N] < K"}, "[N]",
         "hot[n, k] = one_hot[k: K](label[n])\ny[n] = prod[k](f[n, k]^hot[n, k])",
         lambda f, label: f.gather(1, label[:, None])[:, 0], {"f": simplex}),
    Case("D18", {"f": "[N, 2]", "t": "[N]"}, "[]",
         "y = mean[n](log(abs(f[n, 1])) + log(2 * pi) / 2 + (t[n] - f[n, 0])^2 / (2 * f[n, 1]^2))",
         lambda f, t: -dist.Normal(f[:, 0], f[:, 1].abs()).log_prob(t).mean()),
    Case("D19 L30 L31", {"f": "[N, K]", "label": "i32[N] < K"}, "[]", "y = -sum[n](log(f[n, label[n]]))",
         lambda f, label: F.nll_loss(torch.log(f), label, reduction="sum"), {"f": simplex}),
    Case("D22", {"w": "[D]"}, "[]", "y = log(norm[i](w[i]))", lambda w: torch.log(torch.linalg.vector_norm(w))),
    Case("L02", {"f": "[N]", "t": "[N]", "sigma": "[]"}, "[]",
         "y = mean[n](-log(sigma) - log(2 * pi) / 2 - (t[n] - f[n])^2 / (2 * sigma^2))",
         lambda f, t, sigma: dist.Normal(f, sigma).log_prob(t).mean(), {"sigma": positive}),
    Case("L03", PAIR, "[]", "y = mean_absolute_error(p, t)", F.l1_loss),
    Case("L04", PAIR, "[]", "y = huber(p, t)", F.huber_loss, {"p": lambda rng, n: 3 * rng.standard_normal(n)}),
    Case("L04", {"e": "[7]"}, "[7]", "y = e^2 / 2 if abs(e) <= 1 else abs(e) - 0.5",
         lambda e: F.huber_loss(e, torch.zeros_like(e), reduction="none"),
         {"e": given(-2, -1.5, -0.5, 0, 0.5, 1.5, 2)}),
    Case("L21 D25", {"w": "[D]"}, "[]", "y = l2(w) / 2", lambda w: (w**2).sum() / 2),
    Case("L24", {"p": "[N, K]", "label": "i32[N] < K"}, "[]", "y = brier(p, label)",
         lambda p, label: ((p - hot(label)) ** 2).sum(1).mean(), {"p": simplex}),
    Case("L28 L49", {"z": "[N, K]", "tau": "[]"}, "[N, K]", "y[n, k] = softmax[k](z[n, k] / tau)",
         lambda z, tau: F.softmax(z / tau, 1), {"tau": positive}),
    Case("L29 L40 L42", LABELLED, "[]", "y = cross_entropy(z, label)", F.cross_entropy),
    Case("L30 L40", {"z": "[N, K]", "t": "[N, K]"}, "[]", "y = soft_cross_entropy(z, t)", F.cross_entropy,
         {"t": simplex}),
    Case("L40", LABELLED, "[]", "q[n, k] = log_softmax[k](z[n, k])\ny = nll(q, label)", F.cross_entropy),
    Case("L36 L40", {"z": "[N]", "t": "[N]"}, "[]", "y = binary_cross_entropy(z, t)",
         F.binary_cross_entropy_with_logits, {"t": binary}),
    Case("L36 L40", {"q": "[N]", "t": "[N]"}, "[]", "y = binary_cross_entropy_p(q, t)", F.binary_cross_entropy,
         {"q": between_0_and_1, "t": binary}, ("t",)),
    Case("L38", {"z": "[N]"}, "[N]", "two[n, r] = concat[r](z[n], 0.0)\ns[n, r] = softmax[r](two[n, r])\ny = s[:, 0]",
         torch.sigmoid),
    Case("L39", {"q": "[N]"}, "[N]", "y = logit(q)", torch.logit, {"q": between_0_and_1}),
    Case("L39", {"q": "[N]"}, "[N]", "y = sqrt(2) * erfinv(2 * q - 1)", torch.special.ndtri, {"q": between_0_and_1}),
    Case("L41", {"z": "[N, K]"}, "[N]", "y[n] = logsumexp[k](z[n, k])", lambda z: torch.logsumexp(z, 1),
         {"z": lambda rng, n: 1000 + rng.standard_normal(n)}),
    Case("L50", LABELLED, "[]", "y = focal(z, label)",
         lambda z, label: (-((1 - (q := F.softmax(z, 1).gather(1, label[:, None])[:, 0])) ** 2) * q.log()).mean()),
)  # fmt: skip


@pytest.mark.parametrize("case", LOSSES)
def test_losses_have_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _least_squares(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lstsq(x, t[:, None]).solution[:, 0]


NORMAL = "A[i, j] = X[n, i] * X[n, j]\nb[i] = X[n, i] * t[n]\n"
DATA = {"X": "[N, E]", "t": "[N]"}

LINEAR = cases(
    Case("L05 L08", {"X": "[N, D]", "w": "[D]", "b": "[]"}, "[N]", "y[n] = X[n, i] * w[i] + b",
         lambda x, w, b: x @ w + b),
    Case("L06", {"X": "[N, 5]", "w": "[6]"}, "[N]", "Z[n, i] = concat[i](X[n, i], 1.0)\ny[n] = Z[n, i] * w[i]",
         lambda x, w: x @ w[:-1] + w[-1]),
    Case("L07 L10", {"X": "[N, D]", "w": "[D]", "b": "[]", "t": "[N]"}, "[]",
         "y = mean[n]((t[n] - X[n, i] * w[i] - b)^2)", lambda x, w, b, t: F.mse_loss(x @ w + b, t)),
    Case("L11 L12", DATA, "[E]", f"{NORMAL}y = solve(A, b)", _least_squares),
    Case("L13", {"X": "[N, E]"}, "[E, N]", "A[i, j] = X[n, i] * X[n, j]\nB[i, n] = X[n, i]\ny = solve(A, B)",
         torch.linalg.pinv),
    Case("L14", {"X": "[N, E]"}, "[N, N]",
         "A[i, j] = X[n, i] * X[n, j]\nB[i, n] = X[n, i]\nP = solve(A, B)\ny[n, m] = X[n, i] * P[i, m]",
         lambda x: x @ torch.linalg.pinv(x)),
    Case("L17", DATA, "[]", f"{NORMAL}w = solve(A, b)\ny = mean[n]((t[n] - X[n, i] * w[i])^2)",
         lambda x, t: ((t - x @ _least_squares(x, t)) ** 2).mean()),
    Case("L20", {**DATA, "lam": "[]"}, "[E]",
         f"{NORMAL}R[i, j] = A[i, j] + (lam if i == j else 0)\ny = solve(R, b)",
         lambda x, t, lam: torch.linalg.solve(x.T @ x + lam * torch.eye(3, dtype=x.dtype), x.T @ t), {"lam": positive}),
    Case("L26", {"X": "[N, D]", "W": "[O, D]", "b": "[O]"}, "[N, O]", "y[n, o] = W[o, i] * X[n, i] + b[o]", F.linear),
    Case("L35 L37", {"X": "[N, D]", "w": "[D]", "b": "[]", "t": "[N]"}, "[]",
         "y = -mean[n](t[n] * log(sigmoid(X[n, i] * w[i] + b)) + (1 - t[n]) * log(1 - sigmoid(X[n, i] * w[i] + b)))",
         lambda x, w, b, t: F.binary_cross_entropy_with_logits(x @ w + b, t), {"t": binary}, ("t",)),
)  # fmt: skip


@pytest.mark.parametrize("case", LINEAR)
def test_linear_models_and_their_solutions_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


DECISIONS = cases(
    Case("D04", {"query": "[D]", "X": "[7, D]"}, "i64[3]",
         "s[m] = cosine[i](query[i], X[m, i])\nbest[j], y[j] = top_k[m -> j: 3](s[m])",
         lambda q, x: torch.topk(torch.cosine_similarity(q[None], x, 1), 3).indices),
    Case("L22", {"p": "[N]"}, "[N]", "y = round(p)", torch.round, {}, ("p",)),
    Case("L23", {"label": "i32[N] < K", "z": "[K]"}, "[N, K]", "y[n, k] = one_hot[k: K](label[n])",
         lambda label, z: hot(label), {}, ("z",)),
    Case("L25", {"p": "[N, K]"}, "i64[N]", "y[n] = argmax[k](p[n, k])", lambda p: p.argmax(1), {"p": simplex}),
    Case("L33", {"q": "[N]"}, "[N]", "y = 0.0 if q <= 0.5 else 1.0", lambda q: (q > 0.5).double(),
         {"q": given(0.5, 0.1, 0.9, 0.4999, 0.5001, 0.0)}, ("q",)),
    Case("L44", LABELLED, "[]", "y = accuracy(z, label)",
         lambda z, label: (z.argmax(1) == label).double().mean(), {}, ("z",)),
    Case("L45", {"C": "[K, K]", "f": "[N, K]"}, "i64[N]", "y[n] = argmin[i](C[i, j] * f[n, j])",
         lambda c, f: (f @ c.T).argmin(1), {"C": positive, "f": simplex}),
    Case("L46", {"p": "[N]", "t": "[N]"}, "[2]",
         "wrong = sum[n](1.0 if p[n] > 0 and t[n] == 0 else 0.0)\n"
         "missed = sum[n](1.0 if p[n] <= 0 and t[n] == 1 else 0.0)\n"
         "y[r] = concat[r](wrong, missed)",
         lambda p, t: torch.stack((((p > 0) & (t == 0)).sum(), ((p <= 0) & (t == 1)).sum())).double(), {"t": binary},
         ("p", "t")),
    Case("L51", {"f": "[N, K]", "gamma": "[]"}, "bool[N, K]", "y[n, k] = f[n, k] > gamma", lambda f, g: f > g,
         {"f": simplex, "gamma": given(0.25)}),
)  # fmt: skip


@pytest.mark.parametrize("case", DECISIONS)
def test_decisions_and_metrics_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _mixture(x: torch.Tensor, w: torch.Tensor, m: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    parts = dist.Independent(dist.Normal(m, s), 1)
    found: torch.Tensor = dist.MixtureSameFamily(dist.Categorical(logits=w), parts).log_prob(x)
    return found


PROBABILITY = cases(
    Case("D03", {"x": "[N, D]", "w": "[K]", "m": "[K, D]", "s": "[K, D]"}, "[N]",
         "l[k] = log_softmax[k](w[k])\n"
         "g[n, k] = sum[i](-log(s[k, i]) - log(2 * pi) / 2 - ((x[n, i] - m[k, i]) / s[k, i])^2 / 2)\n"
         "y[n] = logsumexp[k](l[k] + g[n, k])", _mixture, {"s": positive}),
    Case("D21 Q05", {"like": "[K, D]", "prior": "[K]"}, "[K, D]",
         "e[i] = like[k, i] * prior[k]\ny[k, i] = like[k, i] * prior[k] / e[i]",
         lambda like, prior: (like * prior[:, None]) / (prior @ like), {"like": simplex, "prior": simplex}),
    Case("Q02 Q04", {"joint": "[K, E]"}, "[K]", "y[k] = sum[e](joint[k, e])", lambda j: j.sum(1), {"joint": positive}),
    Case("Q08", {"q": "[N]", "t": "[N]"}, "[N]", "y[n] = log(q[n]^t[n] * (1 - q[n])^(1 - t[n]))",
         lambda q, t: dist.Bernoulli(q).log_prob(t), {"q": between_0_and_1, "t": binary}, ("t",)),
    Case("Q09", {"x": "[N]", "mu": "[]", "s": "[]"}, "[N]",
         "y[n] = exp(-((x[n] - mu) / s)^2 / 2) / sqrt(2 * pi * s^2)",
         lambda x, mu, s: torch.exp(dist.Normal(mu, s).log_prob(x)), {"s": positive}),
    Case("Q10", {"x": "[K]", "mu": "[K]", "S": "[K, K]"}, "[]",
         "c = x - mu\nz = solve(S, c)\ny = -(K * log(2 * pi) + logdet(S) + c[i] * z[i]) / 2",
         lambda x, mu, s: -(4 * math.log(2 * math.pi) + torch.logdet(s) + (x - mu) @ torch.linalg.solve(s, x - mu)) / 2,
         {"S": covariance}),
    Case("Q10", {"x": "[K]", "mu": "[K]", "S": "[K, K]"}, "[]",
         "c = x - mu\nz = solve(S, c)\ny = -(K * log(2 * pi) + logdet(S) + c[i] * z[i]) / 2",
         lambda x, mu, s: dist.MultivariateNormal(mu, s).log_prob(x), {"S": covariance}, ("S",)),
    Case("Q12", {"p": "[K]", "f": "[K]"}, "[]", "y = f[k]^2 * p[k]", lambda p, f: (p * f**2).sum(), {"p": simplex}),
    Case("Q14", {"p": "[N, K]", "q": "[N, K]"}, "[]", "y = kl_divergence(p, q)",
         lambda p, q: (p * (p / q).log()).sum(1).mean(), {"p": simplex, "q": simplex}),
    Case("Q17", {"x": "[N]"}, "[]", "y = var[n](x[n])", lambda x: torch.var(x, correction=0)),
    Case("Q18", {"x": "[N]"}, "[]", "y = var[n](x[n]) * N / (N - 1)", torch.var),
)  # fmt: skip


@pytest.mark.parametrize("case", PROBABILITY)
def test_densities_and_divergences_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
