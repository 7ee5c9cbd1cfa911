"""Windows that walk backwards, masks in products and means of terms with a minus: their text, and torch's gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dslc
from dslc.compiler import compile_text

SPECS = Path(__file__).parents[2] / "specs"

#: a causal convolution by channel, whose gradient by K has windows that walk backwards
CAUSAL = """
model m(x: f32[N, T, C]) -> y: [N, T, C] where C == 3:
    param K: [4, 3] ~ normal
    y[n, t, c] = sum[u](({read} else 0) * K[u, c])

train m(x: f32[N, T, C], mask: f32[N, T]):
    minimize -mean[n, t](mask[n, t] * -m(x)[n, t, 0]^2 - (1 - mask[n, t]) * m(x)[n, t, 1])
    using sgd(lr = 0.1)
"""


@pytest.mark.parametrize(("step", "ahead"), [(1, 0), (2, 0), (1, 2), (3, 4)])
def test_windows_that_walk_backwards_are_views(tmp_path: Path, step: int, ahead: int) -> None:
    path = tmp_path / "m.dsl"
    path.write_text(CAUSAL.replace("{read}", f"x[n, t + {ahead} - {step}*u, c]"), encoding="utf-8")
    module = dslc.compile(path)
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(2, 11, 3)).astype(np.float32), rng.integers(0, 2, (2, 11)).astype(np.float32)
    params = module.init(0)
    loss, grads = module.loss_and_grad(params, x, mask)
    K = torch.tensor(params["K"], requires_grad=True)
    wide = torch.nn.functional.pad(torch.tensor(x), (0, 0, 20, 20))
    y = sum(wide[:, 20 + ahead - step * u :][:, :11] * K[u] for u in range(4))
    assert isinstance(y, torch.Tensor)
    given = torch.tensor(mask)
    expected = (given * y[..., 0] ** 2 + (1 - given) * y[..., 1]).mean()
    expected.backward()
    assert K.grad is not None
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
    np.testing.assert_allclose(grads["K"], K.grad, rtol=1e-4, atol=1e-6)
    text = compile_text(path)
    assert "-np.mean" not in text
    if ahead == 0:
        assert "windows(" not in text.replace("sliding_window_view(", "") and f"::-{step}]" in text


def test_shipped_specs_are_written_as_a_person_would() -> None:
    gat = compile_text(SPECS / "graph/gat.dsl")
    assert 'gat_p = np.vecdot(gat_z, params["gat.here"])' in gat and "/ math.sqrt(32)" in gat
    assert "np.mean(present * softplus(-edge_logit) + (1 - present) * softplus(edge_logit))" in gat
    assert "np.float32(1)" not in compile_text(SPECS / "recurrent/lstm.dsl")
    mamba = compile_text(SPECS / "recurrent/mamba.dsl")
    assert "\ndef windows(" not in mamba
    assert "np.sum(d_rms_norm_y * h / sqrt_rms_norm_square_mean[:, :, None], axis=(0, 1))" in mamba
