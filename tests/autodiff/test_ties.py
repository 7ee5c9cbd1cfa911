"""Gradients of maxima go to the places that reach them, however the values were rounded on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text

SCATTERED = """
model m(x: f32[M, O], s: f32[], at: i32[M] < 4) -> (top: [4, O], dx: [M, O], ds: []):
    top[at[m], o] {op}= {formula}
    total = sum[k, o](top[k, o]^2 if isfinite(top[k, o]) else 0)
    dx = grad(total, x)
    ds = grad(total, s)
"""

FORMULAS = ["s * x[m, o] / 3", "x[m, o] / 3 * s / 7 + 1", "exp(s * x[m, o]) / 3"]


def torch_of(formula: str, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    value: torch.Tensor = eval(formula.replace("[m, o]", ""), {"x": x, "s": s, "exp": torch.exp})
    return value


@pytest.mark.point("E")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_scattered_maximum_gives_its_gradient_to_what_reached_it(
    formula: str, op: str, dtype: str, tmp_path: Path
) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(SCATTERED.format(formula=formula, op=op), encoding="utf-8")
    rng = np.random.default_rng(0)
    kind = np.float32 if dtype == "f32" else np.float64
    x, s, at = rng.normal(size=(64, 3)).astype(kind), kind(0.7), rng.integers(0, 4, 64)
    x[10], at[10] = x[11], at[11]  # a tie
    found = load(compile_text(spec, dtype=dtype), tmp_path).forward({}, x, s, at)
    tx, ts = torch.tensor(x, requires_grad=True), torch.tensor(s, requires_grad=True)
    value = torch_of(formula, tx, ts)
    top = torch.full((4, 3), -np.inf if op == "max" else np.inf, dtype=value.dtype)
    top = top.scatter_reduce(0, torch.tensor(at)[:, None].expand(64, 3), value, f"a{op}", include_self=False)
    dx, ds = torch.autograd.grad((top**2).sum(), [tx, ts])
    rtol = 1e-5 if dtype == "f32" else 1e-12
    for name, expected in {"top": top.detach(), "dx": dx, "ds": ds}.items():
        np.testing.assert_allclose(found[name], expected, rtol=rtol, err_msg=name)


REDUCED = """
layer stage(x: [N, K]) -> y: [N]:
    param w: [K] = 1
    param s: [] = 0.7
    y[n] = {op}[k](s * x[n, k] / 3 * w[k] + w[k] / 7)

model m(x: f32[N, 9]) -> y: [N]:
    y = stage(x)

train m(x, t: [N]):
    y = m(x)
    minimize sum[n](y[n] * t[n])
    using sgd(lr = 0.1)
"""


@pytest.mark.point("E")
@pytest.mark.parametrize("rows", [3, 2000])
@pytest.mark.parametrize("op", ["max", "min"])
def test_a_maximum_of_products_loses_no_gradient_in_training(op: str, rows: int, tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(REDUCED.format(op=op), encoding="utf-8")
    rng = np.random.default_rng(1)
    x, t = rng.normal(size=(rows, 9)), rng.normal(size=rows)
    module = load(compile_text(spec, dtype="f64"), tmp_path)
    params = {"stage.w": rng.normal(size=9), "stage.s": np.array(0.7)}
    grads = module.loss_grad_metrics(params, x, t)[1]
    w, s = (torch.tensor(p, requires_grad=True) for p in params.values())
    y = getattr(torch, f"a{op}")(s * torch.tensor(x) / 3 * w + w / 7, 1)
    for found, expected in zip(grads.values(), torch.autograd.grad((y * torch.tensor(t)).sum(), [w, s]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.point("E")
def test_the_least_whole_number_of_no_values_is_the_largest_there_is(tmp_path: Path) -> None:
    head = "model m(x: i32[M], at: i32[M] < 3) -> (a: i64[3], b: i64[3]):"
    text = f"{head}\n    a[at[m]] max= x[m]\n    b[at[m]] min= x[m]\n"
    spec = tmp_path / "m.dsl"
    spec.write_text(text, encoding="utf-8")
    found = load(compile_text(spec), tmp_path).forward({}, np.array([3, -4, 5]), np.array([0, 0, 1]))
    limits = np.iinfo(np.int64)
    assert found["a"].tolist() == [3, 5, limits.min]
    assert found["b"].tolist() == [-4, 5, limits.max]
