"""What hard models of the fields found wrong, each cut down to what it takes to show it, beside a torch program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dslc

Tensors = dict[str, torch.Tensor]


def deep(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    for a in range(2):
        for b in range(3):
            x = x + torch.tanh(x @ p[f"dense.{a}.{b}.W"] + p[f"dense.{a}.{b}.b"])
        x = 0.9 * x
    return (x**2).sum(1)


def nested(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    return deep(p, x).mean()


def nested_twice(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    return (torch.autograd.grad(deep(p, x).sum(), x, create_graph=True)[0] ** 2).sum()


def once_twice(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    h = x
    for a in range(3):
        h = torch.tanh(h @ p[f"dense.{a}.W"] + p[f"dense.{a}.b"])
    return (torch.autograd.grad(h.sum(), x, create_graph=True)[0] ** 2).sum()


def decayed(p: Tensors, v: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        v = v * p["k"] / mass[:, None]
    return (mass[:, None] * v**2).sum()


def counted(p: Tensors, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    degree = torch.zeros(3).double().index_add(0, place, torch.ones(len(place)).double())
    total = torch.zeros(3).double().index_add(0, place, p["w"] * x)
    return (total * torch.log(degree + 1) * torch.log(1 + 2 * degree) + torch.exp(degree) - 1).sum()


NESTED = """
model m(x: f32[N, 3]) -> e: [N]:
    h = x
    for a in 0..2:
        for b in 0..3:
            h = h + tanh(dense(h, 3))
        h = 0.9 * h
    e[n] = sum[k](h[n, k]^2)

train m(x):
    e = m(x)
    minimize LOSS
    using sgd(lr = 0.1)
"""
TWICE = "    e = m(x)\n    g = grad(sum(e), x)\n"

#: a spec, a torch program of its loss, and the inputs
FOUND: dict[str, tuple[str, Callable[..., torch.Tensor], list[Any]]] = {
    "gradients of layers in two loops": (
        NESTED.replace("LOSS", "mean(e)"), nested, [np.random.default_rng(0).normal(size=(4, 3))],
    ),
    "gradients of layers in two loops, of a loss with a gradient": (
        NESTED.replace("LOSS", "sum(g^2)").replace("    e = m(x)\n", TWICE), nested_twice,
        [np.random.default_rng(1).normal(size=(4, 3))],
    ),
    "gradients of layers in a loop, of a loss with a gradient": (
        """
model m(x: f32[N, 3]) -> e: []:
    h = x
    for a in 0..3:
        h = tanh(dense(h, 3))
    e = sum(h)

train m(x):
    e = m(x)
    minimize sum(grad(e, x)^2)
    using sgd(lr = 0.1)
""",
        once_twice, [np.random.default_rng(2).normal(size=(5, 3))],
    ),
    "a square that the gradient reads again": (
        """
model m(v0: f32[P, 3], mass: f32[P], steps = 4) -> e: []:
    param k: [] = 1.5
    scan t in 0..steps:
        v[t, p, a] = v[t-1, p, a] * k / mass[p]
    start v = v0
    e = sum[p, a](mass[p] * v[steps-1, p, a]^2)

train m(v0, mass):
    minimize m(v0, mass)
    using sgd(lr = 0.1)
""",
        decayed, [np.random.default_rng(3).normal(size=(4, 3)), np.array([1.0, 2.0, 0.5, 1.5])],
    ),
    "logarithms of whole numbers and 1": (
        """
model m(x: f32[M], place: i32[M] < 3) -> y: [3]:
    param w: [] = 0.7
    one[i: M] = 1
    degree[place[i]] += one[i]
    total[place[i]] += w * x[i]
    n[v: 3] = i32(round(degree[v]))
    y[v] = total[v] * log(n[v] + 1) * log(1 + 2 * n[v]) + exp(n[v]) - 1

train m(x, place):
    minimize sum(m(x, place))
    using sgd(lr = 0.1)
""",
        counted, [np.random.default_rng(4).normal(size=6), np.array([0, 2, 0, 0, 2, 0], np.int32)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", FOUND)
def test_a_loss_and_all_its_gradients_are_those_of_torch(name: str, backend: str, tmp_path: Path) -> None:
    spec, program, given = FOUND[name]
    (tmp_path / "m.dsl").write_text(spec)
    floats = [k for k in ("x", "v0", "mass") if f" {k}: f32" in spec or f"({k}: f32" in spec]
    module = dslc.compile(tmp_path / "m.dsl", backend=backend, dtype="f64", wrt=floats)
    rng = np.random.default_rng(5)
    params = {k: v + 0.1 * rng.standard_normal(v.shape) for k, v in module.init(0).items()}
    loss, grads = module.loss_and_grad(params, *given)
    leaves = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    inputs = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in given]
    expected = program(leaves, *inputs)
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-12)
    named = leaves | dict(zip(floats, (x for x in inputs if x.requires_grad), strict=True))
    assert grads.keys() == named.keys()
    for key, leaf in named.items():
        assert leaf.grad is not None
        np.testing.assert_allclose(grads[key], leaf.grad, rtol=1e-9, atol=1e-12, err_msg=key)


STATES = """
model m(x: f32[N, 3]) -> y: [N]:
    h = x
    for a in 0..2:
        for b in 0..3:
            h = h + (h |> dense(3) |> batch_norm(momentum = 0.9) |> tanh)
        h = 0.9 * h
    y[n] = sum[k](h[n, k]^2)

train m(x):
    minimize mean(m(x))
    using sgd(lr = 0.1)
"""


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_states_of_layers_in_two_loops_go_on(backend: str, tmp_path: Path) -> None:
    (tmp_path / "m.dsl").write_text(STATES)
    module = dslc.compile(tmp_path / "m.dsl", backend=backend, dtype="f64")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 3))
    params = {k: v + 0.1 * rng.standard_normal(v.shape) for k, v in module.init(0).items()}
    p = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    h, expected = torch.tensor(x), {}
    for a in range(2):
        for b in range(3):
            z = h @ p[f"dense.{a}.{b}.W"] + p[f"dense.{a}.{b}.b"]
            name = f"batch_norm.{a}.{b}."
            expected[name + "running_mean"] = 0.1 * z.mean(0)
            expected[name + "running_var"] = 0.9 + 0.1 * z.var(0, unbiased=False)
            z = torch.nn.functional.batch_norm(z, None, None, p[name + "scale"], p[name + "shift"], training=True)
            h = h + torch.tanh(z)
        h = 0.9 * h
    wanted = (h**2).sum(1).mean()
    wanted.backward()
    loss, grads, _, states = module.loss_grad_metrics(params, x, module.init_state())
    np.testing.assert_allclose(loss, wanted.item(), rtol=1e-12)
    assert states.keys() == expected.keys() and grads.keys() == p.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(states[key], value.detach(), rtol=1e-10, err_msg=key)
    for key, leaf in p.items():
        assert leaf.grad is not None
        np.testing.assert_allclose(grads[key], leaf.grad, rtol=1e-8, atol=1e-12, err_msg=key)
