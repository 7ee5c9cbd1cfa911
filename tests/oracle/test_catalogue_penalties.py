"""Rows of the catalogue on regularisation (chapter 9): penalties, weight decay, sparse and constrained solutions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, Case, Table, cases, check, given, model, positive
from marks import rows
from sklearn.linear_model import Lasso
from torch import distributions as dist
from torch.nn import functional as F

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)

DATA = {"X": "[N, E]", "t": "[N]", "w": "[E]"}
LINE = "p[n] = X[n, i] * w[i]\n"
WITH_ZERO = {"w": given(0.7, 0.0, -1.3)}

PENALTIES = cases(
    Case("9.03 9.05", {**DATA, "lam": "[]"}, "[]", LINE + "y = mean_squared_error(p, t) + lam * l2(w)",
         lambda X, t, w, lam: F.mse_loss(X @ w, t) + lam * (w**2).sum(), {"lam": positive}),
    Case("9.03 9.07", {**DATA, "lam": "[]"}, "[]", LINE + "y = mean_squared_error(p, t) + lam * l1(w)",
         lambda X, t, w, lam: F.mse_loss(X @ w, t) + lam * w.abs().sum(), {"lam": positive, **WITH_ZERO}),
    Case("9.04", {**DATA, "s": "[]"}, "[]",
         LINE + "y = -sum[n](normal_log_density(t[n], p[n], 1)) - sum[i](normal_log_density(w[i], 0, s))",
         lambda X, t, w, s: -dist.Normal(X @ w, 1.0).log_prob(t).sum() - dist.Normal(0.0, s).log_prob(w).sum(),
         {"s": positive}),
    Case("9.04 9.07", {**DATA, "s": "[]"}, "[]",
         LINE + "y = -sum[n](normal_log_density(t[n], p[n], 1)) + sum[i](abs(w[i]) / s + log(2 * s))",
         lambda X, t, w, s: -dist.Normal(X @ w, 1.0).log_prob(t).sum() - dist.Laplace(0.0, s).log_prob(w).sum(),
         {"s": positive}),
    Case("9.08", {"w": "[N, K]"}, "[]", "y = group_l2(w)",
         lambda w: 2 * torch.linalg.vector_norm(w, dim=1).sum(),
         {"w": lambda rng, shape: rng.standard_normal(shape) * (np.arange(shape[0]) != 2)[:, None]}),
    Case("9.08 9.07", {"w": "[N, 1]"}, "[]", "y = group_l2(w)", lambda w: w.abs().sum()),
    Case("9.10", {"X": "[N, E]", "t": "[N]", "a": "[E]", "b": "[E]", "lam": "[]"}, "[]",
         "w = a * b\n" + LINE + "y = mean_squared_error(p, t) + lam * (l2(a) + l2(b))",
         lambda X, t, a, b, lam: F.mse_loss(X @ (a * b), t) + lam * ((a**2).sum() + (b**2).sum()), {"lam": positive}),
)  # fmt: skip


@pytest.mark.parametrize("case", PENALTIES)
def test_penalties_have_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("backend", ["c", "triton"])
@pytest.mark.parametrize("table", [pytest.param(PENALTIES, marks=[m for x in PENALTIES for m in x.marks], id="all")])
def test_penalties_are_the_same_everywhere(table: list[Any], backend: str, tmp_path: Path) -> None:
    made = Table(x.values[0] for x in table)
    with np.errstate(all="ignore"):  # Triton's interpreter warns of what branches not taken hold
        found = model(made.text(), tmp_path, backend).forward({}, *made.arguments())
    made.compare(found)


LOSS = """
model line(x: f64[N, 4]) -> y: [N]:
    param w: [4] ~ normal
    y[n] = x[n, i] * w[i]

train line(x, t: f64[N], lam = 0.5):
    minimize {loss}
    using {using}
"""
FIT = "mean_squared_error(line(x), t)"


def data(seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 4))
    return x, x @ np.array([1.0, -2.0, 0.0, 0.5]) + 0.1 * rng.standard_normal(40)


@rows("9.03")
def test_a_penalty_that_weighs_nothing_changes_no_bit(tmp_path: Path) -> None:
    plain = model(LOSS.format(loss=FIT, using="sgd(lr = 0.1)"), tmp_path)
    penalised = model(LOSS.format(loss=f"{FIT} + lam * l2(line.w)", using="sgd(lr = 0.1)"), tmp_path, lam=0.0)
    weighed = model(LOSS.format(loss=f"{FIT} + lam * l2(line.w)", using="sgd(lr = 0.1)"), tmp_path, lam=0.3)
    params = plain.init(3)
    first, second, third = (m.loss_and_grad(params, *data()) for m in (plain, penalised, weighed))
    assert first[0] == second[0]
    np.testing.assert_array_equal(first[1]["w"], second[1]["w"])
    np.testing.assert_allclose(third[1]["w"], first[1]["w"] + 2 * 0.3 * params["w"], rtol=1e-12)


@rows("9.04")
def test_the_most_probable_weights_are_those_of_ridge_regression(tmp_path: Path) -> None:
    """A normal prior of variance s^2 on the weights is the penalty 1 / (2 s^2) on half of the squared error."""
    x, t = data()
    s = 0.4
    prior = "-sum(normal_log_density(t, line(x), 1)) - sum(normal_log_density(line.w, 0, 0.4))"
    module = model(LOSS.format(loss=prior, using="sgd(lr = 0.01)"), tmp_path)
    ridge = np.linalg.solve(x.T @ x + np.eye(4) / s**2, x.T @ t)
    _, grads = module.loss_and_grad({"w": ridge}, x, t)
    assert np.abs(grads["w"]).max() < 1e-10
    _, grads = module.loss_and_grad({"w": np.linalg.lstsq(x, t)[0]}, x, t)
    assert np.abs(grads["w"]).max() > 1


def steps(module: Any, count: int, x: Array, t: Array, start: Array) -> list[Array]:
    params = {"w": start.copy()}
    opt, found = module.init_opt(params), []
    for _ in range(count):
        params, opt = module.train_step(params, opt, x, t)
        found.append(np.array(params["w"]))
    return found


@rows("9.05", "9.06")
def test_without_another_gradient_weights_decay_as_a_power(tmp_path: Path) -> None:
    start, none = np.array([1.0, -2.0, 0.5, 3.0]), np.zeros((40, 4))
    pulled = model(LOSS.format(loss=f"{FIT} + lam * l2(line.w)", using="sgd(lr = 0.1)"), tmp_path)
    decayed = model(LOSS.format(loss=FIT, using="adamw(lr = 0.1, weight_decay = 0.5)"), tmp_path)
    for t, (a, b) in enumerate(
        zip(steps(pulled, 5, none, none[:, 0], start), steps(decayed, 5, none, none[:, 0], start), strict=True), 1
    ):
        np.testing.assert_allclose(a, (1 - 2 * 0.1 * 0.5) ** t * start, rtol=1e-12)
        np.testing.assert_allclose(b, (1 - 0.1 * 0.5) ** t * start, rtol=1e-12)


@rows("9.06", "X9.6")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_adamw_steps_as_that_of_torch(backend: str, tmp_path: Path) -> None:
    x, t = data()
    module = model(LOSS.format(loss=FIT, using="adamw(lr = 0.05, weight_decay = 0.1)"), tmp_path, backend)
    start = np.array([1.0, -2.0, 0.5, 3.0])
    w = torch.tensor(start, requires_grad=True)
    theirs = torch.optim.AdamW([w], lr=0.05, weight_decay=0.1)
    for found in steps(module, 4, x, t, start):
        theirs.zero_grad()
        F.mse_loss(torch.tensor(x) @ w, torch.tensor(t)).backward()
        theirs.step()
        np.testing.assert_allclose(found, w.detach(), rtol=1e-9)


@rows("9.06")
def test_decay_and_penalty_are_one_for_descent_and_two_for_adam(tmp_path: Path) -> None:
    x, t = data()
    start = np.array([1.0, -2.0, 0.5, 3.0])
    penalty = f"{FIT} + lam * l2(line.w)"
    found = {
        name: steps(model(LOSS.format(loss=loss, using=using), tmp_path), 5, x, t, start)[-1]
        for name, loss, using in (
            ("sgd penalty", penalty, "sgd(lr = 0.1)"), ("sgd decay", FIT, "sgd(lr = 0.1, weight_decay = 1.0)"),
            ("adam penalty", penalty, "adam(lr = 0.1)"), ("adam decay", FIT, "adamw(lr = 0.1, weight_decay = 1.0)"),
        )
    }  # fmt: skip
    np.testing.assert_allclose(found["sgd penalty"], found["sgd decay"], rtol=1e-12)
    assert np.abs(found["adam penalty"] - found["adam decay"]).max() > 1e-2
    # alone, the penalty makes Adam step by its rate, however much it weighs
    none = np.zeros((40, 4))
    for lam in (0.01, 5.0):
        module = model(LOSS.format(loss=penalty, using="adam(lr = 0.1)"), tmp_path, lam=lam)
        np.testing.assert_allclose(
            steps(module, 1, none, none[:, 0], start)[0], start - 0.1 * np.sign(start), rtol=1e-6
        )


@rows("9.10")
def test_products_of_weights_find_the_lasso(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 5))
    t = x @ np.array([1.5, 0.0, -1.0, 0.0, 0.0]) + 0.1 * rng.standard_normal(60)
    module = model(SPECS / "linear" / "sparse.dsl", tmp_path, features=5, lam=0.2)
    params = {k: v.astype(np.float64) for k, v in module.init().items()}
    params["b"] = 0.9 * params["b"]
    opt = module.init_opt(params)
    for _ in range(4000):
        params, opt = module.train_step(params, opt, x.astype(np.float32), t.astype(np.float32))
    w = params["a"] * params["b"]
    lasso = Lasso(alpha=0.2, fit_intercept=False, tol=1e-12).fit(x, t).coef_
    assert (lasso == 0).any()
    np.testing.assert_allclose(w, lasso, atol=1e-5)


@rows("9.10")
def test_the_least_squares_of_two_factors_are_twice_the_absolute_value() -> None:
    w = np.array([0.7, -2.0, 0.1])
    a = np.geomspace(0.01, 100, 20001)[:, None]
    sums = a**2 + (w / a) ** 2
    np.testing.assert_allclose(sums.min(0), 2 * np.abs(w), rtol=1e-6)
    np.testing.assert_allclose(a[sums.argmin(0), 0], np.sqrt(np.abs(w)), rtol=1e-3)


@rows("9.11")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_a_constraint_has_the_solution_of_the_penalty_that_fulfils_it(backend: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 4))
    t = x @ np.array([1.5, 0.0, -1.0, 0.1]) + 0.2 * rng.standard_normal(30)
    ridge = np.linalg.solve(x.T @ x + 20 * np.eye(4), x.T @ t)
    lasso = Lasso(alpha=0.3, fit_intercept=False, tol=1e-14).fit(x, t).coef_
    rate = np.float64(0.5 / np.linalg.eigvalsh(x.T @ x).max())
    module = model(
        SPECS / "optimisation" / "constrained.dsl", tmp_path, backend, steps=60 if backend == "triton" else 400
    )
    for radius, name, wanted in (
        (np.linalg.norm(ridge), "ball", ridge), (np.abs(lasso).sum(), "polytope", lasso)
    ):  # fmt: skip
        found = module.forward({}, x, t, np.float64(radius), rate)[name]
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert ((lasso == 0) == (np.asarray(found) == 0)).all() and (lasso == 0).any()  # a vertex or an edge: exact zeros
    wide = module.forward({}, x, t, np.float64(100.0), rate)  # a constraint that holds anyway changes nothing
    np.testing.assert_allclose(wide["ball"], np.linalg.lstsq(x, t)[0], rtol=1e-5)
