"""A vector divided by its length: value and gradient are right wherever the length is a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from both_backends import BACKENDS, given, module_of

#: floats, scales whose squares overflow or vanish, and what roundings may change
SCALES = [("f32", 1e25, 1e-6), ("f32", 1e36, 1e-6), ("f32", 1e-25, 1e-6), ("f64", 1e200, 1e-14), ("f64", 1e-200, 1e-14)]


@pytest.mark.point("L")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "scale", "rtol"), SCALES)
@pytest.mark.parametrize("length", ["sqrt(sum[k](x[n, k]^2))", "norm[k](x[n, k])", "mean[k](x[n, k] * x[n, k])^0.5"])
def test_unit_vectors_do_not_depend_on_the_scale(
    length: str, dtype: str, scale: float, rtol: float, backend: str, tmp_path: Path
) -> None:
    text = (
        f"model unit(x: {dtype}[N, K]) -> y: [N, K]:\n    y[n, k] = x[n, k] / {length}\n\n"
        f"train unit(x, w: {dtype}[N, K]):\n    y = unit(x)\n    minimize sum[n, k](w[n, k] * y[n, k])\n"
        "    using sgd(lr = 1)\n"
    )
    module = module_of(text, backend, tmp_path, dtype, wrt=["x"])
    float_ = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(3, 7)).astype(float_) for _ in range(2))
    far = (x * scale).astype(float_)
    root = np.sqrt(np.sum(x.astype(float) ** 2, axis=1, keepdims=True) / (7 if "mean" in length else 1))
    y = x / root
    slope = (w - y * np.sum(w * y, axis=1, keepdims=True) / np.sum(y**2, axis=1, keepdims=True)) / root
    found = np.asarray(module.forward({}, given(far, backend)))
    np.testing.assert_allclose(found, y, atol=rtol * np.abs(y).max())
    found = np.asarray(module.loss_and_grad({}, given(far, backend), given(w, backend))[1]["x"]).astype(float) * scale
    np.testing.assert_allclose(found, slope, atol=rtol * np.abs(slope).max())
