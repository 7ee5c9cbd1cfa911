"""A function of one operand inside of a contraction costs what it costs on a line of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dslc
from dslc.cost import costs, total
from dslc.frontend import check_text
from dslc.pipeline import training

DENSE = """
model m(x: f64[N, I = 32], O = 24) -> y: [N, O]:
    param w: [O, I] ~ glorot
    param v: [I, I] ~ glorot
    h[n, i] = x[n, j] * v[i, j]
    {}

train m(x):
    minimize sum[n, o](m(x)[n, o]^2)
    using sgd(lr = 0.1)
"""
WINDOWS = """
model m(x: f64[N, T, I = 6], O = 5) -> y: [N, T - 2, O] where T >= 3:
    param w: [3, I, O] ~ glorot
    param v: [I, I] ~ glorot
    h[n, t, i] = x[n, t, j] * v[i, j]
    {}

train m(x):
    minimize sum[n, p, o](m(x)[n, p, o]^2)
    using sgd(lr = 0.1)
"""
#: a spec, the contraction with its function inside, and with the function on its own line
SPELLINGS = {
    "silu": (DENSE, "y[n, o] = w[o, i] * silu(h[n, i])", "s = silu(h)\n    y[n, o] = w[o, i] * s[n, i]"),
    "quotient": (
        DENSE,
        "y[n, o] = w[o, i] * tanh(h[n, i]) / (1 + h[n, i]^2)",
        "s = tanh(h) / (1 + h^2)\n    y[n, o] = w[o, i] * s[n, i]",
    ),
    "polynomial": (DENSE, "y[n, o] = (h[n, i] + h[n, i]^3) * w[o, i]", "s = h + h^3\n    y[n, o] = s[n, i] * w[o, i]"),
    "windows": (
        WINDOWS,
        "y[n, p, o] = w[a, i, o] * silu(h[n, p + a, i])",
        "s = silu(h)\n    y[n, p, o] = w[a, i, o] * s[n, p + a, i]",
    ),
}


def work(text: str) -> float:
    """The operations of a training step with 64 rows of 64."""
    checked = check_text(text)
    assert checked.program is not None, [d.message for d in checked.errors]
    program = training(checked.program.trains[0])
    size = total(costs(program.values().values(), program.gradients().values())).operations
    return float(size if isinstance(size, int) else size.subs(dict.fromkeys(size.free_symbols, 64)))


@pytest.mark.point("28")
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_function_inside_of_a_contraction_costs_what_it_does_on_its_own_line(name: str) -> None:
    spec, inside, apart = SPELLINGS[name]
    assert work(spec.format(inside)) <= 1.1 * work(spec.format(apart))


FUNCTIONS = {
    "silu": torch.nn.functional.silu,
    "quotient": lambda h: torch.tanh(h) / (1 + h**2),
    "polynomial": lambda h: h + h**3,
    "windows": torch.nn.functional.silu,
}


@pytest.mark.point("28")
@pytest.mark.parametrize("name", SPELLINGS)
def test_its_gradients_are_those_of_torch(tmp_path: Path, name: str) -> None:
    spec, inside, _ = SPELLINGS[name]
    file = tmp_path / "m.dsl"
    file.write_text(spec.format(inside), encoding="utf-8")
    module = dslc.compile(file, dtype="f64")
    params = module.init(0)
    shape = (3, 7, 6) if name == "windows" else (3, 32)
    x = np.random.default_rng(0).normal(size=shape)
    theirs = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    s = FUNCTIONS[name](torch.tensor(x) @ theirs["v"].T)
    if name == "windows":
        y = torch.nn.functional.conv1d(s.transpose(1, 2), theirs["w"].permute(2, 1, 0))
    else:
        y = s @ theirs["w"].T
    (y**2).sum().backward()
    loss, grads = module.loss_and_grad(params, x)
    np.testing.assert_allclose(loss, (y**2).sum().item(), rtol=1e-12)
    for k, v in theirs.items():
        np.testing.assert_allclose(grads[k], v.grad, rtol=1e-9, atol=1e-12, err_msg=k)
