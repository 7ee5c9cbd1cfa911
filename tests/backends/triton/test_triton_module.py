"""`Module`: a torch.nn.Module with the names of the spec and the generated backward pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from triton_modules import ROOT, triton_module

SPEC = """
model m(x: f32[N, 5], scale: f32[N]) -> (y: [N, 3], s: [N]):
    h = x |> dense(4) |> tanh
    y = dense(h, 3)
    s[n] = scale[n] * sum[o](y[n, o]^2)
"""


def small(tmp_path: Path) -> torch.nn.Module:
    spec = tmp_path / "small.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    module: torch.nn.Module = triton_module(spec, tmp_path, "f64").Module(seed=1)
    return module


def test_gradients_pass_gradcheck(tmp_path: Path) -> None:
    module = small(tmp_path)
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(2, 5))).requires_grad_()
    scale = torch.as_tensor(rng.normal(size=2)).requires_grad_()
    names = [n for n, _ in module.named_parameters()]

    def run(x: torch.Tensor, scale: torch.Tensor, *params: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = torch.func.functional_call(module, dict(zip(names, params, strict=True)), (x, scale))
        return tuple(found.values())

    params = tuple(p.detach().clone().requires_grad_() for p in module.parameters())
    assert torch.autograd.gradcheck(run, (x, scale, *params), fast_mode=True)


def test_state_dict_has_the_names_of_the_spec(tmp_path: Path) -> None:
    module = small(tmp_path)
    assert set(module.state_dict()) == {"dense.W", "dense.b", "dense2.W", "dense2.b"}


def test_a_torch_optimizer_trains_it(tmp_path: Path) -> None:
    module = triton_module(ROOT / "specs/mlp/mlp.dsl", tmp_path).Module(seed=0)
    adam = torch.optim.Adam(module.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(8, 64))).float()
    label = torch.as_tensor(rng.integers(0, 10, 8))
    losses = []
    for _ in range(5):
        adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), label)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
