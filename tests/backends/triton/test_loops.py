"""Loops as people write them, on both backends: values, gradients and names of parameters are those of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dslc
from dslc.compiler import compile_text

Params = dict[str, torch.Tensor]

TRAIN = """
train m(x):
    minimize sum[n, k](m(x)[n, k]^2)
    using sgd(lr = 0.1)
"""
X = "model m(x: f64[N, K = 4]) -> y: [N, K]:\n"
A = X + "    param a: [K] ~ normal\n"


@dataclass(frozen=True)
class Case:
    """A model, and what torch makes of it."""

    name: str
    text: str
    expected: Callable[[Params, torch.Tensor], torch.Tensor]
    point: str = "H"


def repeat(count: int, step: Callable[[int, Any], Any], start: Any) -> Any:
    for number in range(count):
        start = step(number, start)
    return start


CASES = [
    Case(
        "the start value is needed after the loop",
        "layer lay(h: [N, K]) -> y: [N, K]:\n    param w: [K] ~ normal\n    y[n, k] = tanh(h[n, k] * w[k])\n\n"
        + X
        + "    h = cos(x)\n    for l in 0..3:\n        h = lay(h)\n    y[n, k] = h[n, k] + cos(x[n, k])\n",
        lambda p, x: repeat(3, lambda i, h: torch.tanh(h * p[f"lay.{i}.w"]), torch.cos(x)) + torch.cos(x),
        "C",
    ),
    Case(
        "two equal gradients",
        X + "    h = x\n    for l in 0..3:\n        param a, b: [K] ~ normal\n"
        "        h[n, k] = tanh(h[n, k] + a[k] + b[k])\n    y = h\n",
        lambda p, x: repeat(3, lambda i, h: torch.tanh(h + p[f"a.{i}"] + p[f"b.{i}"]), x),
        "B",
    ),
    Case(
        "equal gradients in a loop in a loop",
        X + "    h = x\n    for l in 0..3:\n        param a, b: [K] ~ normal\n        for r in 1..3:\n"
        "            param c, d: [K] ~ normal\n"
        "            h[n, k] = tanh(h[n, k] + a[k] + b[k] + c[k] + d[k])\n    y = h\n",
        lambda p, x: repeat(
            6,
            lambda i, h: torch.tanh(
                h + sum(p[f"{q}.{i // 2}"] + p[f"{r}.{i // 2}.{i % 2 + 1}"] for q, r in ("ac", "bd"))
            ),
            x,
        ),
        "B",
    ),
    Case(
        "the value from before the loop again",
        A + "    y = x\n    for l in 0..2:\n        y = x\n    y[n, k] = y[n, k] * a[k]\n",
        lambda p, x: x * p["a"],
    ),
    Case("nothing but that", X + "    y = x\n    for l in 0..2:\n        y = x\n", lambda p, x: x),
    Case(
        "a body that changes nothing",
        A + "    y[n, k] = x[n, k] * a[k]\n    for l in 0..3:\n        y = y\n",
        lambda p, x: x * p["a"],
    ),
    Case(
        "a loop in a loop that changes nothing",
        A + "    y = x\n    for l in 0..3:\n        for r in 0..2:\n            y = y\n    y[n, k] = y[n, k] * a[k]\n",
        lambda p, x: x * p["a"],
    ),
    Case(
        "a body that forgets what was there",
        A + "    y = x\n    for l in 0..3:\n        y[n, k] = x[n, k] * a[k]\n",
        lambda p, x: x * p["a"],
    ),
    Case(
        "a body beside the carried value",
        A + "    y = x\n    for l in 0..3:\n        t = tanh(x)\n    y[n, k] = y[n, k] * a[k] + t[n, k]\n",
        lambda p, x: x * p["a"] + torch.tanh(x),
    ),
    Case(
        "one of two values changes",
        A + "    u[n, k] = x[n, k] * a[k]\n    v = x\n    for l in 0..3:\n        u = tanh(u)\n"
        "        v = x\n    y = u + v\n",
        lambda p, x: repeat(3, lambda i, u: torch.tanh(u), x * p["a"]) + x,
    ),
    Case(
        "one of two carried values stays",
        A + "    u[n, k] = x[n, k] * a[k]\n    v[n, k] = x[n, k] + a[k]\n    for l in 0..3:\n        u = u\n"
        "        v[n, k] = v[n, k] * u[n, k]\n    y = u * v + u\n",
        lambda p, x: (x * p["a"]) ** 4 * (x + p["a"]) + x * p["a"],
    ),
    Case(
        "two values swap",
        A + "    u[n, k] = x[n, k] * a[k]\n    v[n, k] = x[n, k] + a[k]\n    for l in 0..3:\n        t = u\n"
        "        u = v\n"
        "        v = t\n    y = u * v + u\n",
        lambda p, x: x * p["a"] * (x + p["a"]) + x + p["a"],
    ),
    Case(
        "two values swap and change",
        A + "    u[n, k] = x[n, k] * a[k]\n    v = x\n    for l in 0..3:\n        param b: [K] ~ normal\n"
        "        c[n, k] = u[n, k] * b[k] + v[n, k]\n        u = v\n        v = c\n    y = u + v\n",
        lambda p, x: sum(repeat(3, lambda i, uv: (uv[1], uv[0] * p[f"b.{i}"] + uv[1]), (x * p["a"], x))),
    ),
]
MARKED = [pytest.param(case, id=case.name, marks=pytest.mark.point(case.point)) for case in CASES]


@pytest.mark.wide(3)
@pytest.mark.parametrize("case", MARKED)
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_a_loop_computes_what_torch_does(tmp_path: Path, backend: str, case: Case) -> None:
    file = tmp_path / "m.dsl"
    file.write_text(case.text + TRAIN, encoding="utf-8")
    module = dslc.compile(file, backend, "f64")
    x = torch.tensor(np.random.default_rng(0).normal(size=(5, 4)))
    params = module.init(0)
    theirs = {name: torch.as_tensor(value).clone().requires_grad_() for name, value in params.items()}
    expected = case.expected(theirs, x)
    given = x if backend == "triton" else x.numpy()
    np.testing.assert_allclose(np.asarray(module.forward(params, given)), expected.detach(), rtol=1e-12)
    loss, grads = module.loss_and_grad(params, given)
    np.testing.assert_allclose(float(loss), (expected**2).sum().item(), rtol=1e-12)
    assert grads.keys() == theirs.keys()
    if theirs:
        (expected**2).sum().backward()
    for name, value in theirs.items():
        np.testing.assert_allclose(np.asarray(grads[name]), value.grad, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.point("B")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_equal_states_of_layers_are_all_updated(tmp_path: Path, backend: str) -> None:
    """Also where the gradient reads them."""
    file = tmp_path / "m.dsl"
    text = """
    h = x
    for l in 0..3:
        param g: [K] ~ normal
        state s: [K] = 0
        state t: [K] = 0
        state first: [K] = 0
        u[k] = tanh(mean[n](h[n, k]))
        h[n, k] = tanh(h[n, k] * u[k] * g[k]) + s[k]
        training:
            s <- u
            t <- u
            first <- x[0, :]
    y = h
"""
    file.write_text(X + text.lstrip("\n") + TRAIN, encoding="utf-8")
    module = dslc.compile(file, backend, "f64")
    x = torch.tensor(np.random.default_rng(0).normal(size=(5, 4)))
    given = x if backend == "triton" else x.numpy()
    params, state = module.init(0), module.init_state()
    theirs = {name: torch.as_tensor(value).clone().requires_grad_() for name, value in params.items()}
    h, seen = x, {}
    for i in range(3):
        u = torch.tanh(h.mean(0))
        seen |= {f"s.{i}": u, f"t.{i}": u, f"first.{i}": x[0]}
        h = torch.tanh(h * u * theirs[f"g.{i}"])
    (h**2).sum().backward()
    _, grads, _, new = module.loss_grad_metrics(params, given, state)
    assert grads.keys() == theirs.keys() and new.keys() == seen.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(np.asarray(grads[name]), value.grad, rtol=1e-9, err_msg=name)
    for name, u in seen.items():
        np.testing.assert_allclose(np.asarray(new[name]), u.detach(), rtol=1e-12, err_msg=name)


def sinkhorn(p: Params, cost: torch.Tensor) -> torch.Tensor:
    kernel = torch.exp(-cost * p["s"])
    v = torch.ones(4, dtype=torch.float64)
    for _ in range(6):
        u = 1 / (kernel @ v)
        v = 1 / (u @ kernel)
    return u[:, None] * kernel * v


def routing(p: Params, x: torch.Tensor) -> torch.Tensor:
    h = x[:, :, None] * p["w"]
    beta = torch.zeros(5, 4, 3, dtype=torch.float64)
    for _ in range(6):
        c = torch.softmax(beta, 2)
        v = torch.tanh((c * h).sum(1))
        beta = beta + h * v[:, None]
    return v @ p["r"]


ROLLED = {
    "sinkhorn": (
        X
        + """    param s: [] ~ ones
    kernel[i, j] = exp(-x[i, j] * s)
    v[j: K] = 1
    for l in 0..{steps}:
        u[i] = 1 / sum[j](kernel[i, j] * v[j])
        v[j] = 1 / sum[i](kernel[i, j] * u[i])
    y[i, j] = u[i] * kernel[i, j] * v[j]
""",
        sinkhorn,
    ),
    "routing": (
        X
        + """    param w: [J = 3] ~ normal
    param r: [J, K] ~ normal
    h[n, k, j] = x[n, k] * w[j]
    beta[n: N, k: K, j: J] = 0
    for l in 0..{steps}:
        c[n, k, j] = softmax[j](beta[n, k, j])
        v[n, j] = tanh(sum[k](c[n, k, j] * h[n, k, j]))
        beta[n, k, j] += h[n, k, j] * v[n, j]
    y[n, k] = v[n, j] * r[j, k]
""",
        routing,
    ),
}


@pytest.mark.wide(2)
@pytest.mark.point("26")
@pytest.mark.parametrize("name", ROLLED)
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_equal_passes_that_start_from_a_constant_are_one_loop(tmp_path: Path, backend: str, name: str) -> None:
    text, expected = ROLLED[name]
    file = tmp_path / "m.dsl"
    lines = {}
    for steps in (120, 60, 6):
        file.write_text(text.format(steps=steps) + TRAIN, encoding="utf-8")
        lines[steps] = len(compile_text(file, backend, dtype="f64").splitlines())
    assert abs(lines[120] - lines[60]) <= 5  # numbers of more digits break lines
    x = torch.tensor(np.random.default_rng(0).uniform(size=(5, 4)))
    module = dslc.compile(file, backend, "f64")
    params = module.init(0)
    theirs = {k: torch.as_tensor(value).clone().requires_grad_() for k, value in params.items()}
    loss = (expected(theirs, x) ** 2).sum()
    loss.backward()
    found, grads = module.loss_and_grad(params, x if backend == "triton" else x.numpy())
    np.testing.assert_allclose(float(found), loss.item(), rtol=1e-10)
    for k, value in theirs.items():
        np.testing.assert_allclose(np.asarray(grads[k]), value.grad, rtol=1e-8, atol=1e-12, err_msg=k)
