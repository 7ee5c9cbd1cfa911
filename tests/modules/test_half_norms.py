"""Norms of numbers of 16 bits: their means and variances are as exact as torch's, which computes them in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from both_backends import BACKENDS, given, module_of

#: torch's result for x[n, t, c], over the axes of each norm
NORMS = {
    "layer_norm(x)": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm(x)": lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6),
    "batch_norm(x)": lambda x: F.batch_norm(x.flatten(0, 1), None, None, training=True).reshape(x.shape),
    "instance_norm(x)": lambda x: F.instance_norm(x.mT).mT,
    "group_norm(x, 3)": lambda x: F.group_norm(x.mT, 3).mT,
    "example_norm(x)": lambda x: F.layer_norm(x, x.shape[1:]),
}
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
#: numbers whose squares f16 cannot hold, numbers far from 0 beside their spread, numbers whose squares round to 0
SCALES = {"large": (300.0, 0.0), "shifted": (3.0, 200.0), "small": (1e-3, 0.0)}


@pytest.mark.wide(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("norm", NORMS)
def test_norms_of_16_bits_are_those_of_torch(norm: str, kind: str, backend: str, tmp_path: Path) -> None:
    text = (
        f"model m(x: {kind}[N, 5, 6]) -> y: [N, 5, 6]:\n    y = {norm}\n\n"
        f"train m(x, w: f32[N, 5, 6]):\n    minimize sum(m(x) * w)\n    using sgd(lr = 1)\n"
    )
    module = module_of(text, backend, tmp_path, wrt=["x"])
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 5, 6)).astype(np.float32)
    for scale, mean in SCALES.values():
        x = torch.tensor(mean + scale * rng.normal(size=w.shape)).to(DTYPES[kind])
        exact = x.float().requires_grad_()
        y = (NORMS[norm](exact) * torch.tensor(w)).sum()
        (slope,) = torch.autograd.grad(y, exact)
        value = x if backend == "triton" else x.float().numpy()
        params, state = module.init(seed=0), [module.init_state()] if norm == "batch_norm(x)" else []
        found = module.loss_grad_metrics(params, value, given(w, backend), *state)
        loss, by_x = float(found[0]), np.asarray(torch.as_tensor(found[1]["x"]).float())
        near = 2e-3 if kind == "f16" else 1.6e-2  # y is f32, its gradient by x has 16 bits
        np.testing.assert_allclose(loss, y.item(), rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(by_x, slope.numpy(), rtol=near, atol=near * float(slope.abs().max()))
