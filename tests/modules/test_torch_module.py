"""`Module` of Triton modules: whatever layers, parameters and outputs are called, and whatever their dtypes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from both_backends import BACKENDS, given, leaves, module_of


@pytest.mark.point("15")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", ["sigmoid", "gelu", "silu", "erf", "softplus", "lgamma", "tanh"])
def test_a_function_of_few_numbers_needs_nothing_that_is_missing(function: str, backend: str, tmp_path: Path) -> None:
    module = module_of(f"model m(x: f32[4]) -> y: [4]:\n    y = {function}(x)\n", backend, tmp_path)
    x = np.array([0.1, 0.5, 1.5, 2.5], np.float32)
    oracle = getattr(torch, function, None) or getattr(torch.nn.functional, function)
    found = np.asarray(module.forward({}, given(x, backend)))
    np.testing.assert_allclose(found, oracle(torch.from_numpy(x)).numpy(), rtol=1e-5)


@pytest.mark.point("17")
@pytest.mark.parametrize("backend", BACKENDS)
def test_exposed_values_of_layers_in_layers_are_outputs(backend: str, tmp_path: Path) -> None:
    text = """
layer inner(x: [N, 3]) -> y: [N, 3]:
    h = tanh(x)
    expose h
    y = h + 1

layer outer(x: [N, 3]) -> y: [N, 3]:
    y = inner(x)

model m(x: f32[N, 3], d_y: f32[3]) -> y: [N, 3]:
    a = outer(x)
    y[n, k] = a[n, k] * d_y[k]
"""
    module = module_of(text, backend, tmp_path)
    x, factor = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32), np.full(3, 2, np.float32)
    found = dict(leaves(module.forward({}, given(x, backend), given(factor, backend))))
    np.testing.assert_allclose(found["['outer.inner.h']"], np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(found["['y']"], 2 * np.tanh(x) + 2, rtol=1e-6)
    if backend == "triton":
        leaf = torch.from_numpy(x).requires_grad_()
        results = module.Module()(leaf, torch.from_numpy(factor))
        (results["y"].sum() + 3 * results["outer.inner.h"].sum()).backward()
        np.testing.assert_allclose(leaf.grad, 5 * (1 - np.tanh(x) ** 2), rtol=1e-5)


NAMES = ["half", "apply", "type", "forward", "place", "parameters", "_modules", "double", "to", "eval", "seed", "T"]


@pytest.mark.point("18")
def test_layers_parameters_and_states_may_have_names_of_torch(tmp_path: Path) -> None:
    layers = "".join(
        f"layer {name}(x: [N, 3]) -> y: [N, 3]:\n    param {other}: [3] ~ ones\n    state {third}: [3] = 0.5\n"
        f"    y[n, k] = x[n, k] * {other}[k] + {third}[k]\n    training:\n        {third}[k] <- mean[n](x[n, k])\n"
        for name, other, third in zip(NAMES, NAMES[1:] + NAMES[:1], NAMES[2:] + NAMES[:2], strict=True)
    )
    calls = "".join(f"    h = {name}(h)\n" for name in NAMES)
    module = module_of(
        f"{layers}model m(x: f32[N, 3]) -> y: [N, 3]:\n    h = x\n{calls}    y = h\n", "triton", tmp_path
    )
    made = module.Module()
    assert {*made.state_dict()} == {*module.PARAMS, *module.STATE}
    x = torch.ones(2, 3, requires_grad=True)
    made.eval()
    np.testing.assert_allclose(made(x).detach(), np.full((2, 3), 1 + 0.5 * len(NAMES)))
    torch.nn.Module.train(made, True)
    made(x).sum().backward()
    assert all(p.grad is not None for p in torch.nn.Module.parameters(made))
    np.testing.assert_allclose(made.state_dict()["half.type"], np.ones(3))


@pytest.mark.point("18")
def test_a_module_with_a_whole_number_output_has_a_torch_module(tmp_path: Path) -> None:
    text = """
model m(x: f32[N, 3]) -> (best: i64[N], y: [N, 3], hit: bool[N]):
    param w: [3] ~ ones
    y[n, k] = x[n, k] * w[k]
    best[n] = argmax[k](y[n, k])
    hit[n] = x[n, 0] > 0
"""
    made = module_of(text, "triton", tmp_path).Module()
    x = torch.tensor([[1.0, 3.0, 2.0], [-4.0, 0.0, -1.0]], requires_grad=True)
    found = made(x)
    assert found["best"].tolist() == [1, 1] and found["hit"].tolist() == [True, False]
    assert not found["best"].requires_grad and not found["hit"].requires_grad
    found["y"].sum().backward()
    np.testing.assert_allclose(x.grad, np.ones((2, 3)))
    np.testing.assert_allclose(next(made.parameters()).grad, [-3.0, 3.0, 1.0])
