"""Programs that a campaign of random ones found wrong, as they were reported, on every backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from natural import agree, normal

import dslc

BACKENDS = ("numpy", "c", "triton")

LOOP = """fn lay(x: [K]) -> y: [K]:
    y = sin(x) + x / 2

fn f(x: [K]) -> y: [K]:
    h = cos(x)
    for l in 0..3:
        h = lay(h)
    y[k] = h[k] + cos(x[k])
"""


def looped(x: torch.Tensor) -> torch.Tensor:
    h = torch.cos(x)
    for _ in range(3):
        h = torch.sin(h) + h / 2
    return h + torch.cos(x)


@pytest.mark.point("C")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_leaves_its_start_as_it_was(backend: str, tmp_path: Path) -> None:
    agree(LOOP, looped, {"x": normal(5)}, tmp_path, backend)


REPEATED = """fn f(x: [N, K]) -> y: [N, K]:
    y = x
    for l in 0..2:
        y = x
    y[n, k] = y[n, k] + softmax[k](sum[n](x[n, k]))
"""

UNTAKEN = """fn f(x: [T], w: []) -> y: [T]:
    scan t:
        y[t] = w * y[t-1] + (asin(x[t]) if abs(x[t]) < 1 else 0)
    start y = 0
"""


def untaken(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y, h = [], torch.tensor(0.0, dtype=x.dtype)
    for value in x:
        h = w * h + (torch.asin(value) if abs(value) < 1 else 0 * value)
        y.append(h)
    return torch.stack(y)


@pytest.mark.point("H")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_that_keeps_nothing_and_a_branch_that_is_not_taken(backend: str, tmp_path: Path) -> None:
    agree(REPEATED, lambda x: x + torch.softmax(x.sum(0), 0), {"x": normal(3, 4)}, tmp_path, backend)
    agree(UNTAKEN, untaken, {"x": np.array([0.5, 3, 1, -0.2]), "w": np.array(0.5)}, tmp_path, backend)
    agree("fn f(x: [N]) -> y: []:\n    y = (x[1] else -0.5) * x[0]\n", lambda x: -x[0] / 2, {"x": normal(1)},
          tmp_path, backend)  # fmt: skip


def module(text: str, backend: str, folder: Path) -> Any:
    (folder / "spec.dsl").write_text(text, encoding="utf-8")
    return dslc.compile(folder / "spec.dsl", backend=backend, dtype="f64")


@pytest.mark.point("H")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sum_over_an_index_that_nothing_reads_has_two_derivatives(backend: str, tmp_path: Path) -> None:
    text = """model m(x: f64[N, K]) -> (g: [N, K], h: [N, K]):
    e = sum[n, k, j: 3](sin(x[n, k])^2)
    g = grad(e, x)
    f = sum(g^2)
    h = grad(f, x)
"""
    x = torch.tensor(np.r_[normal(3, 2), np.zeros((1, 2))], requires_grad=True)
    e = 3 * (torch.sin(x) ** 2).sum()
    (g,) = torch.autograd.grad(e, x, create_graph=True)
    (h,) = torch.autograd.grad((g**2).sum(), x)
    found = module(text, backend, tmp_path).forward({}, x.detach() if backend == "triton" else x.detach().numpy())
    np.testing.assert_allclose(np.asarray(found["g"]), g.detach(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(found["h"]), h, rtol=1e-12)


@pytest.mark.point("B")
@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_of_a_loop_with_equal_gradients_are_all_trained(backend: str, tmp_path: Path) -> None:
    text = """model m(x: [N, 3]) -> y: [N, 3]:
    y = x
    for l in 0..3:
        param a, b: [3]
        y[n, k] = tanh(y[n, k] + a[k] + b[k])

train m(x):
    minimize sum(m(x)^2)
    using sgd(lr = 0.1)
"""
    m, x = module(text, backend, tmp_path), normal(4, 3)
    given = torch.as_tensor(x) if backend == "triton" else x
    leaves = {name: torch.zeros(3, dtype=torch.float64, requires_grad=True) for name in m.PARAMS}
    y = torch.tensor(x)
    for number in range(3):
        a, b = (next(w for name, w in leaves.items() if name.split(".") == [k, str(number)]) for k in "ab")
        y = torch.tanh(y + a + b)
    slopes = dict(zip(leaves, torch.autograd.grad((y**2).sum(), list(leaves.values())), strict=True))
    params = m.init(0)
    _, grads = m.loss_and_grad(params, given)
    moved, _ = m.train_step(params, m.init_opt(params), given)
    for name, slope in slopes.items():
        np.testing.assert_allclose(np.asarray(grads[name]), slope, rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(np.asarray(moved[name]), -0.1 * slope, rtol=1e-10, err_msg=name)
