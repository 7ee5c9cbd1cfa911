"""Derivatives by parameters of named layers, by those of the model in its training, and of values of earlier passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text
from dslc.frontend import check_text

torch.set_num_threads(1)

LAYER = "layer plus(x: [N, D], f: layer) -> y: [N, D]:\n    y = x + f(x)\n\n"


def energy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return ((x @ w) ** 2).sum()


def passes(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """e is the energy of the pass before: its gradient is the next point."""
    point, e = x, (x**4).sum()
    for _ in range(2):
        (slope,) = torch.autograd.grad(e, x, create_graph=True)
        point = slope
        e = (point**2).sum()
    return point


BODIES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "use d = dense(3, bias = false)\n    h = d(x)\n    g = grad(sum(h * h), d.W)\n    y[n, d] = x[n, i] * g[i, d]":
        lambda x, w: x @ torch.autograd.grad(energy(x, w), w, create_graph=True)[0],
    "use d = dense(3, bias = false)\n    h = plus(x, d)\n    g = grad(sum(h^2), d.W)\n    y[n, d] = x[n, i] * g[i, d]":
        lambda x, w: x @ torch.autograd.grad(((x + x @ w) ** 2).sum(), w, create_graph=True)[0],
    "use d = dense(3, bias = false)\n    z = d(x)\n    e = sum(x^4)\n    p = x\n    for l in 0..2:\n"
    "        p = grad(e, x)\n        e = sum(p^2)\n    y = p + 0 * z": passes,
}  # fmt: skip


@pytest.mark.point("24")
@pytest.mark.parametrize("body", BODIES)
def test_values_and_gradients_are_those_of_torch(body: str, tmp_path: Path) -> None:
    spec = tmp_path / "parts.dsl"
    train = "train m(x):\n    y = m(x)\n    minimize sum(y^2)\n    using sgd\n"
    spec.write_text(f"{LAYER}model m(x: [N, 3]) -> y: [N, 3]:\n    {body}\n\n{train}", encoding="utf-8")
    module = load(compile_text(spec, dtype="f64"), tmp_path)
    rng = np.random.default_rng(0)
    x, w = (torch.tensor(rng.standard_normal(s), requires_grad=True) for s in ((4, 3), (3, 3)))
    params = {name: w.detach().numpy() for name in module.PARAMS}
    y = BODIES[body](x, w)
    found = module.forward(params, x.detach().numpy())
    np.testing.assert_allclose(found, y.detach(), 1e-11)
    if y.requires_grad and "x^4" not in body:
        (wanted,) = torch.autograd.grad((y**2).sum(), w)
        _, grads = module.loss_and_grad(params, x.detach().numpy())
        np.testing.assert_allclose(grads["d.W"], wanted, 1e-10)


@pytest.mark.point("24")
@pytest.mark.parametrize("name", ["w", "dense.W"])
def test_a_loss_may_hold_its_gradient_by_a_parameter_of_the_model(name: str, tmp_path: Path) -> None:
    """The penalty of the squared gradient, as in a training that looks for flat minima."""
    spec = tmp_path / "penalty.dsl"
    body = "y[n] = x[n, k] * w[k]" if name == "w" else "h = dense(x, 1, bias = false)\n    y[n] = h[n, 0]"
    declared = "    param w: [3] ~ ones\n" if name == "w" else ""
    spec.write_text(
        f"model m(x: [N, 3]) -> y: [N]:\n{declared}    {body}\n\ntrain m(x):\n    y = m(x)\n    loss = sum(y^2)\n"
        f"    g = grad(loss, m.{name})\n    minimize loss + 0.1 * sum(g^2)\n    using sgd\n",
        encoding="utf-8",
    )
    module = load(compile_text(spec, dtype="f64"), tmp_path)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((4, 3)))
    params = module.init()
    w = torch.tensor(params[name], requires_grad=True)
    loss = ((x @ w.reshape(3)) ** 2).sum()
    (slope,) = torch.autograd.grad(loss, w, create_graph=True)
    whole = loss + 0.1 * (slope**2).sum()
    found, grads = module.loss_and_grad(params, x.numpy())
    np.testing.assert_allclose(found, whole.detach(), 1e-12)
    np.testing.assert_allclose(grads[name], torch.autograd.grad(whole, w)[0], 1e-11)


@pytest.mark.point("24")
def test_what_does_not_depend_is_still_refused() -> None:
    text = "model m(x: [N, 3]) -> y: [3, 3]:\n    use d = dense(3)\n    h = d(x)\n    y = grad(sum(x), d.W)\n"
    assert [d.code for d in check_text(text).errors] == ["E0708"]
