"""One of equal layers, named alone: `m.block.1.W` in a loss, in a body, in a layer it was passed to, in `freeze`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dslc

os.environ["TRITON_INTERPRET"] = "1"
BACKENDS = ("numpy", "c", "triton")

LAYERS = """
layer bent(x: [N, K]) -> y: [N, K]:
    param W, V: [K] ~ normal
    y[n, k] = tanh(x[n, k] * W[k])

layer stack(x: [N, K]) -> y: [N, K]:
    y = x
    for l in 0..3:
        y = bent(y)

layer tied(x: [N, K], f: layer) -> y: [N, K]:
    h = f(x)
    y[n, k] = h[n, k] * f.bent.1.W[k]
"""
TRAIN = """
train m(x):
    minimize {}
    using sgd(lr = 0.1)
"""
PLAIN = "model m(x: [N, 4]) -> y: [N, 4]:\n    y = x\n    for l in 0..3:\n        y = bent(y)\n"
USED = "model m(x: [N, 4]) -> y: [N, 4]:\n    use net = stack\n    y = {}\n"


def through(p: dict[str, torch.Tensor], x: torch.Tensor, path: str = "") -> torch.Tensor:
    for number in range(3):
        x = torch.tanh(x * p[f"{path}bent.{number}.W"])
    return x


def stopped(p: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    y = x
    for number in range(3):
        y = torch.tanh(y * p[f"bent.{number}.W"]).detach() + x
    return y


#: model, loss, the loss by torch, paths that are frozen
CASES: dict[str, tuple[str, str, Any, tuple[str, ...]]] = {
    "a penalty on a weight that is used": (
        PLAIN, "mean(m(x)^2) + sum(m.bent.0.W^2)",
        lambda p, x: (through(p, x) ** 2).mean() + (p["bent.0.W"] ** 2).sum(), (),
    ),
    "penalties on weights that nothing else uses": (
        PLAIN, "mean(m(x)^2) + sum(m.bent.2.V^2) - sum(m.bent.1.V)",
        lambda p, x: (through(p, x) ** 2).mean() + (p["bent.2.V"] ** 2).sum() - p["bent.1.V"].sum(), (),
    ),
    "a frozen one": (
        PLAIN, "mean(m(x)^2)\n    freeze bent.1.W", lambda p, x: (through(p, x) ** 2).mean(), ("bent.1.W",),
    ),
    "no gradient in any layer": (
        PLAIN.replace("y = bent(y)", "y = stop_grad(bent(y)) + x"), "mean(m(x)^2)",
        lambda p, x: (stopped(p, x) ** 2).mean(), (),
    ),
    "below a layer with a name": (
        USED.format("net(x) * sum(net.bent.1.V^2)"), "mean(m(x)^2)",
        lambda p, x: ((through(p, x, "net.") * (p["net.bent.1.V"] ** 2).sum()) ** 2).mean(), (),
    ),
    "below a layer that is passed": (
        USED.format("tied(x, net) + net(x)"), "mean(m(x)^2)",
        lambda p, x: ((through(p, x, "net.") * (1 + p["net.bent.1.W"])) ** 2).mean(), (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_it_has_its_part_in_the_gradient(name: str, backend: str, tmp_path: Path) -> None:
    model, loss, meaning, frozen = CASES[name]
    spec = tmp_path / "named.dsl"
    spec.write_text(LAYERS + "\n" + model + TRAIN.format(loss), encoding="utf-8")
    module = dslc.compile(spec, backend=backend, dtype="f64")
    params = {k: np.asarray(a) for k, a in module.init(0).items()}
    x = np.random.default_rng(1).normal(size=(5, 4))
    leaves = {k: torch.tensor(a, requires_grad=True) for k, a in params.items()}
    wanted = meaning(leaves, torch.tensor(x))
    slopes = torch.autograd.grad(wanted, list(leaves.values()), allow_unused=True) if wanted.requires_grad else ()
    _ = [np.full(4, 7.0) for _ in range(64)]  # memory that is new is not 0 then
    given = torch.as_tensor if backend == "triton" else np.asarray
    found, grads = module.loss_and_grad({k: given(a) for k, a in params.items()}, given(x))
    np.testing.assert_allclose(np.asarray(found), wanted.detach(), rtol=1e-12)
    assert set(grads) == set(params) - set(frozen)
    expected = dict(zip(leaves, slopes, strict=False))
    for path, slope in grads.items():
        want = expected.get(path)
        want = np.zeros_like(params[path]) if want is None else want.numpy()
        np.testing.assert_allclose(np.asarray(slope), want, rtol=1e-10, atol=1e-14, err_msg=path)
