"""Rows of the catalogue that are definitions of the library: closed forms, densities, tables, calibration."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import (
    Array,
    Case,
    between_0_and_1,
    binary,
    cases,
    check,
    covariance,
    given,
    positive,
    signs,
    simplex,
)
from torch import distributions as dist
from torch.nn import functional as F

import dslc

torch.set_num_threads(1)

DATA = {"X": "[N, E]", "t": "[N]"}

CLOSED_FORMS = cases(
    Case("L11 L12", DATA, "[E]", "y = least_squares(X, t)",
         lambda x, t: torch.linalg.lstsq(x, t[:, None]).solution[:, 0]),
    Case("L20", {**DATA, "lam": "[]"}, "[E]", "y = ridge_regression(X, t, lam)",
         lambda x, t, lam: torch.linalg.solve(x.T @ x + lam * torch.eye(3, dtype=x.dtype), x.T @ t), {"lam": positive}),
    Case("L13", {"X": "[N, E]"}, "[E, N]", "y = pseudoinverse(X)", torch.linalg.pinv),
    Case("L14", {"X": "[N, E]"}, "[N, N]", "y = projection(X)", lambda x: x @ torch.linalg.pinv(x)),
    Case("L18", {"X": "[6, 3]"}, "[]", "y = condition_number(X)",
         lambda x: (s := torch.linalg.svdvals(x))[0] / s[-1]),
    Case("P22", {"A": "[O, K]", "B": "[K, D]", "X": "[N, D]"}, "[N, O]",
         "h[n, k] = B[k, i] * X[n, i]\ny[n, o] = A[o, k] * h[n, k]", lambda a, b, x: x @ (a @ b).T),
)  # fmt: skip


@pytest.mark.parametrize("case", CLOSED_FORMS)
def test_closed_forms_of_linear_models_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


CONDITION = """
model condition(A: f64[N, D]) -> ratio: [] where N >= D:
    ratio = condition_number(A)
"""


def test_the_condition_number_of_matrices_that_are_nearly_singular(tmp_path: Path) -> None:
    """Up to 1e15, where the square of the matrix has no digit left of its smallest eigenvalue."""
    path = tmp_path / "condition.dsl"
    path.write_text(CONDITION, encoding="utf-8")
    m = dslc.compile(path, backend="numpy")
    t = np.linspace(0, 1, 50)
    for columns in (6, 10, 12):
        powers = np.stack([t**k for k in range(columns)], axis=1)
        for A in (powers, powers.T @ powers, 1e-100 * powers):
            if (exact := np.linalg.cond(A)) < 1e15:
                assert m.forward({}, A) == pytest.approx(exact, rel=10 * exact * np.finfo(float).eps)
    assert m.forward({}, np.array([[1.0, 0], [2.0, 0]])) == np.inf


def table(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A joint table of probabilities."""
    x = rng.uniform(0.1, 1.0, shape)
    return np.asarray(x / x.sum())


def hot(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.eye(shape[-1])[rng.integers(0, shape[-1], shape[:-1])]


DENSITIES = cases(
    Case("Q09 L02", {"x": "[N]", "mu": "[]", "s": "[]"}, "[N]", "y = normal_log_density(x, mu, s)",
         lambda x, mu, s: dist.Normal(mu, s).log_prob(x), {"s": positive}),
    Case("Q06", {"x": "[N]"}, "[N]", "y = normal_below(x)", torch.special.ndtr),
    Case("L39", {"q": "[N]"}, "[N]", "y = normal_quantile(q)", torch.special.ndtri, {"q": between_0_and_1}),
    Case("Q08", {"t": "[N]", "q": "[N]"}, "[N]", "y = bernoulli_log_density(t, q)",
         lambda t, q: dist.Bernoulli(q).log_prob(t), {"q": between_0_and_1, "t": binary}, ("t",)),
    Case("Q07 D17", {"t": "[N, K]", "q": "[N, K]"}, "[N]", "y[n] = categorical_log_density[k](t[n, k], q[n, k])",
         lambda t, q: (t * torch.log(q)).sum(1), {"q": simplex, "t": hot}, ("t",)),
    Case("Q10", {"x": "[N, K]", "mu": "[K]", "S": "[K, K]"}, "[N]", "y = multivariate_normal_log_density(x, mu, S)",
         lambda x, mu, s: dist.MultivariateNormal(mu, s).log_prob(x), {"S": covariance}, ("S",)),
    Case("D18", {"f": "[N, 2]", "t": "[N]"}, "[]", "y = heteroscedastic_nll(f, t)",
         lambda f, t: -dist.Normal(f[:, 0], f[:, 1].abs()).log_prob(t).mean()),
    Case("Q12", {"p": "[K]", "f": "[K]"}, "[]", "y = expectation[k](p[k], f[k])", torch.dot, {"p": simplex}),
    Case("Q04", {"joint": "[K, E]"}, "[E]", "y = marginal(joint)", lambda j: j.sum(0), {"joint": table}),
    Case("Q02", {"joint": "[K, E]"}, "[K, E]", "y = conditional(joint)", lambda j: j / j.sum(0), {"joint": table}),
    Case("Q05 X0.3 D21", {"like": "[K, D]", "prior": "[K]"}, "[K, D]", "y = bayes(like, prior)",
         lambda like, prior: (like * prior[:, None]) / (prior @ like), {"like": simplex, "prior": simplex}),
    Case("D22", {"w": "[K, D]"}, "[]", "y = log_norm(w)", lambda w: torch.log(torch.linalg.vector_norm(w))),
    Case("D11", {"p": "[N]", "s": "[N]"}, "[]", "y = zero_one(p, s)",
         lambda p, s: (torch.sign(p) != s).double().mean() + 0 * p.sum(), {"s": signs}, ("s",)),
    Case("D13", {"p": "[5]"}, "[]", "one[i: 5] = 1.0\ny = hinge(p, one)",
         lambda p: F.relu(1 - p).mean(), {"p": given(-1, 0, 0.5, 1, 2)}),
)  # fmt: skip


@pytest.mark.parametrize("case", DENSITIES)
def test_densities_and_tables_of_the_library_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _bins(p: torch.Tensor, label: torch.Tensor, bins: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    sure, guess = p.max(1)
    place = torch.clamp(torch.floor(sure * bins), 0, bins - 1)
    member = (place[:, None] == torch.arange(bins)).double()
    count = member.sum(0)
    least = count.clamp(min=1)
    return count, (member.T @ sure) / least, (member.T @ (guess == label).double()) / least


def _calibration(p: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    count, sure, right = _bins(p, label, 10)
    return (count * (right - sure).abs()).sum() / len(p)


def _threshold(p: torch.Tensor, label: torch.Tensor, alpha: float) -> torch.Tensor:
    right = p.gather(1, label[:, None])[:, 0].sort().values
    found: torch.Tensor = right[math.floor(alpha * (len(p) + 1)) - 1]
    return found


GUESSES = {"p": "[40, K]", "label": "i32[40] < K"}
SURE = {"p": lambda rng, shape: rng.dirichlet(np.full(shape[-1], 0.3), shape[:-1])}

DECISIONS = cases(
    Case("L47", GUESSES, "[3, 5]",
         "a, b, c = reliability(p, label, bins = 5)\ny[r, i] = concat[r](a[i], b[i], c[i])",
         lambda p, label: torch.stack(_bins(p, label, 5)), SURE, ("p",)),
    Case("L48 L43", GUESSES, "[]", "y = calibration_error(p, label)", _calibration, SURE, ("p",)),
    Case("L48", GUESSES, "[]", "y = maximum_calibration_error(p, label, bins = 4)",
         lambda p, label: (lambda count, sure, right: (right - sure).abs().max())(*_bins(p, label, 4)), SURE, ("p",)),
    Case("L51", GUESSES, "[]", "y = conformal_threshold(p, label, alpha = 0.2)",
         lambda p, label: _threshold(p, label, 0.2), SURE, ("p",)),
    Case("L51", {"p": "[N, K]", "gamma": "[]"}, "bool[N, K]", "y = prediction_set(p, gamma)", lambda p, g: p >= g,
         {"p": simplex, "gamma": given(0.25)}),
    Case("L45", {"C": "[K, K]", "f": "[N, K]"}, "i64[N]", "y = cheapest(f, C)",
         lambda c, f: (f @ c.T).argmin(1), {"C": positive, "f": simplex}),
    Case("F22", {"x": "[N, K]"}, "[]", "h[n, k] = relu(x[n, k] - k)\ny = dead_units(h)",
         lambda x: (F.relu(x - torch.arange(4)) == 0).all(0).double().mean(), {}, ("x",)),
)  # fmt: skip


@pytest.mark.parametrize("case", DECISIONS)
def test_decisions_and_calibration_of_the_library_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
