"""Updates that sum over a parameter: NumPy modules compute them, C and Triton refuse them in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dslc
from dslc.diagnostics.spec_error import SpecError

SPEC = """
optimizer shortened(lr = 0.1):
    length = sqrt(sum(grad^2))
    param <- param - lr * grad / max(1, length)

model linear(x: f64[N, 4]) -> y: [N, 2]:
    y = dense(x, 2)

train linear(x, t: f64[N, 2]):
    minimize sum((linear(x) - t)^2)
    using shortened(lr = 0.1)
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "shortened.dsl"
    file.write_text(SPEC, encoding="utf-8")
    return file


def test_numpy_shortens_the_gradient_of_each_parameter(spec: Path) -> None:
    module = dslc.compile(spec, backend="numpy", dtype="f64")
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    params = module.init(seed=0)
    own = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    ((torch.tensor(x) @ own["dense.W"] + own["dense.b"] - torch.tensor(t)) ** 2).sum().backward()
    moved, _ = module.train_step(params, module.init_opt(params), x, t)
    for k, v in own.items():
        assert v.grad is not None
        expected = (v - 0.1 * v.grad / max(1, float(v.grad.norm()))).detach().numpy()
        np.testing.assert_allclose(moved[k], expected, rtol=1e-12)


@pytest.mark.parametrize("backend", ["c", "triton"])
def test_kernels_of_all_parameters_at_once_refuse_them(spec: Path, backend: str) -> None:
    with pytest.raises(SpecError, match=r"E0901(.|\n)*not elementwise(.|\n)*shortened.dsl:3"):
        dslc.compile(spec, backend=backend)
