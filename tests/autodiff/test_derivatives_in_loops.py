"""Loops with derivatives inside, written out and as one scan: as torch has them, with `create_graph`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import load

from dslc.builder.layers import one_by_one
from dslc.compiler import choose, compile_text
from dslc.frontend import check_file

Descent = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]

HEAD = """
fn energy(z: [N, D], w: [D]) -> e: []:
    e = sum[n, d](sin(w[d] * z[n, d]) + 0.5 * z[n, d]^2) + 0.1 * sum[n](prod[d](z[n, d]))

model m(x: f64[N, 4], K = 3) -> y: [N, 4]:
    param w: [4] ~ normal
"""
TAIL = """
train m(x, t: f64[N, 4]):
    y = m(x)
    minimize sum[n, d](y[n, d] * t[n, d])
    using sgd(lr = 0.1)
"""


def energy(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (torch.sin(w * z) + 0.5 * z**2).sum() + 0.1 * z.prod(1).sum()


def slope(e: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(e, by, create_graph=True)[0]


def descent(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    z = x + 0
    for _ in range(count):
        z = z - 0.1 * slope(energy(z, w), z)
    return z


def by_what_the_start_is_made_of(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    h = x
    for _ in range(count):
        h = torch.tanh(h * w + 0.1 * slope(energy(h, w), x))
    return h


def beside_a_function_of_the_start(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    z = x + 0
    c = torch.cos(z)
    for _ in range(count):
        z = z - 0.1 * slope(energy(z, w) + (z * c * torch.sin(z)).sum(), z)
    return z


def with_momentum(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    z, v = x + 0, torch.zeros_like(x)
    for _ in range(count):
        v = 0.9 * v - 0.1 * slope(energy(z, w) + (v * z**2).sum(), z)
        z = z + v
    return z


def with_an_average(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    z, v = x + 0, torch.sin(x)
    for _ in range(count):
        z = z - 0.1 * slope(energy(z, w) + (v * z**2).sum(), z)
        v = 0.5 * v + 0.1 * z
    return z


def by_a_parameter(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    z = x
    for _ in range(count):
        z = z - 0.1 * slope(energy(z, w), w) * z
    return z


def of_weights(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    u = w
    for _ in range(count):
        u = u - 0.1 * slope(energy(x, u), u)
    return x * u


def leapfrog(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    q, p = x + 0, torch.cos(x)
    for _ in range(count):
        p = p - 0.05 * slope(energy(q, w), q)
        q = q + 0.1 * slope((0.5 * p**2 + 0.1 * p**4).sum(), p)
        p = p - 0.05 * slope(energy(q, w), q)
    return q + p


#: torch's way, lines of a spec, and whether the passes can be one scan: a derivative may not go back beyond its pass
CASES: list[tuple[Descent, bool, str]] = [
    (
        descent, True,
        """
        z = x
        for i in 0..K:
            e = energy(z, w)
            z = z - 0.1 * grad(e, z)
        y = z
        """,
    ),
    (
        descent, False,
        """
        z = x
        e = energy(z, w)
        for i in 0..K:
            z = z - 0.1 * grad(e, z)
            e = energy(z, w)
        y = z
        """,
    ),
    (
        by_what_the_start_is_made_of, False,
        """
        h = x
        for i in 0..K:
            g = grad(energy(h, w), x)
            h[n, d] = tanh(h[n, d] * w[d] + 0.1 * g[n, d])
        y = h
        """,
    ),
    (
        beside_a_function_of_the_start, True,
        """
        z = x
        c = cos(z)
        for i in 0..K:
            e = energy(z, w) + sum[n, d](z[n, d] * c[n, d] * sin(z[n, d]))
            z = z - 0.1 * grad(e, z)
        y = z
        """,
    ),
    (
        with_momentum, True,
        """
        z = x
        v[n, d] = 0.0 * x[n, d]
        for i in 0..K:
            e = energy(z, w) + sum[n, d](v[n, d] * z[n, d]^2)
            v = 0.9 * v - 0.1 * grad(e, z)
            z = z + v
        y = z
        """,
    ),
    (
        with_an_average, False,
        """
        z = x
        v = sin(x)
        for i in 0..K:
            e = energy(z, w) + sum[n, d](v[n, d] * z[n, d]^2)
            z = z - 0.1 * grad(e, z)
            v = 0.5 * v + 0.1 * z
        y = z
        """,
    ),
    (
        by_a_parameter, False,
        """
        z = x
        for i in 0..K:
            g = grad(energy(z, w), w)
            z[n, d] = z[n, d] - 0.1 * g[d] * z[n, d]
        y = z
        """,
    ),
    (
        of_weights, True,
        """
        u = w
        for i in 0..K:
            u = u - 0.1 * grad(energy(x, u), u)
        y[n, d] = x[n, d] * u[d]
        """,
    ),
    (
        leapfrog, True,
        """
        q = x
        p = cos(x)
        for i in 0..K:
            p = p - 0.05 * grad(energy(q, w), q)
            kinetic = sum[n, d](0.5 * p[n, d]^2 + 0.1 * p[n, d]^4)
            q = q + 0.1 * grad(kinetic, p)
            p = p - 0.05 * grad(energy(q, w), q)
        y = q + p
        """,
    ),
]  # fmt: skip


@pytest.mark.point("24", "26")
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("meaning", "rolls", "text"), CASES)
def test_a_loop_with_derivatives_is_right(meaning: Descent, rolls: bool, text: str, count: int, tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(HEAD + textwrap.indent(textwrap.dedent(text).strip(), "    ") + "\n" + TAIL, encoding="utf-8")
    model, _ = choose(check_file(spec, {"K": 6}))
    assert model is not None and bool(one_by_one(model)) != rolls
    module = load(compile_text(spec, dtype="f64", settings={"K": count}, wrt=["x"]), tmp_path)
    params = module.init(0)
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(2, 3, 4))
    loss, grads = module.loss_and_grad(params, x, t)
    own, w = torch.tensor(x, requires_grad=True), torch.tensor(params["w"], requires_grad=True)
    wanted = (meaning(own, w, count) * torch.tensor(t)).sum()
    wanted.backward()
    np.testing.assert_allclose(loss, wanted.item(), rtol=1e-12)
    np.testing.assert_allclose(grads["w"], w.grad, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(grads["x"], own.grad, rtol=1e-9, atol=1e-12)
