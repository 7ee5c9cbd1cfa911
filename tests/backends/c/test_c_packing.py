"""Matrices of recurrences are packed once in each layer, before its loop over time; what comes out is torch's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dslc import compile as compiled
from dslc.compiler import compile_files

torch = pytest.importorskip("torch")

DEEP = """
layer unit(x: [N, T, K]) -> h: [N, T, K]:
    param W, U: [K, K] ~ glorot
    scan t:
        h[n, t, k] = tanh(x[n, t, j] * W[j, k] + h[n, t-1, j] * U[j, k])
    start h = 0

model deep(x: f32[N, T, 70], layers = 3) -> y: [N, T, 70]:
    h = x
    for l in 0..layers:
        h = unit(h) + h
    y = h

train deep(x):
    minimize mean[...](deep(x)[...]^2)
    using sgd(lr = 0.1)
"""


def by_torch(params: dict[str, np.ndarray], x: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The values of the model, and the gradients of the mean of their squares."""
    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in params.items()}
    y = torch.tensor(x, dtype=torch.float64)
    for layer in range(3):
        steps = [torch.zeros_like(y[:, 0])]
        for t in range(y.shape[1]):
            steps.append(torch.tanh(y[:, t] @ leaves[f"unit.{layer}.W"] + steps[-1] @ leaves[f"unit.{layer}.U"]))
        y = torch.stack(steps[1:], 1) + y
    (y**2).mean().backward()
    return y.detach().numpy(), {name: leaf.grad.numpy() for name, leaf in leaves.items()}


def test_matrices_that_are_packed_before_a_loop_are_those_of_its_layer(tmp_path: Path) -> None:
    (tmp_path / "deep.dsl").write_text(DEEP, encoding="utf-8")
    module = compiled(tmp_path / "deep.dsl", backend="c", dtype="f64")
    params, rng = module.init(0), np.random.default_rng(0)
    for N, T in ((1, 1), (1, 60), (2, 30), (3, 17), (5, 20), (50, 3), (70, 1), (4, 11)):
        x = rng.standard_normal((N, T, 70))
        y, grads = by_torch(params, x)
        assert np.abs(module.forward(params, x) - y).max() < 1e-12 * np.abs(y).max()
        _, found = module.loss_and_grad(params, x)
        for name, value in grads.items():
            assert np.abs(found[name] - value).max() <= 1e-12 * np.abs(value).max(), name


def test_no_matrix_is_packed_inside_of_a_loop_over_time(tmp_path: Path) -> None:
    (tmp_path / "deep.dsl").write_text(DEEP, encoding="utf-8")
    lines = compile_files(tmp_path / "deep.dsl", "c")["deep.c"].splitlines()
    packs = [k for k, line in enumerate(lines) if "N * T" in line and "_U_packed = packed" in line]
    loops = [k for k, line in enumerate(lines) if line.lstrip().startswith("for (f.t")]
    assert packs
    for pack in packs:
        following = min(loop for loop in loops if loop > pack)
        assert lines[pack].index("f.") == lines[following].index("for")
