"""A vector divided by its length: value and gradient are right wherever the length is a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
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


@pytest.mark.point("L")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "scale", "rtol"), [("f32", 1.0, 1e-6), *(x for x in SCALES if x[1] > 1)])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_norms_of_far_entries_are_those_of_exact_arithmetic(
    norm: str, dtype: str, scale: float, rtol: float, backend: str, tmp_path: Path
) -> None:
    text = (
        f"model normed(x: {dtype}[N, 7]) -> y: [N, 7]:\n    y = {norm}(x, far = true)\n\n"
        f"train normed(x, w: {dtype}[N, 7]):\n    y = normed(x)\n    minimize sum[n, k](w[n, k] * y[n, k])\n"
        "    using sgd(lr = 1)\n"
    )
    module = module_of(text, backend, tmp_path, dtype, wrt=["x"])
    float_ = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(3, 7)).astype(float_) for _ in range(2))
    far = torch.tensor((x * scale).astype(float_).astype(float) / scale, requires_grad=True)
    eps = (1e-5 if norm == "layer_norm" else 1e-6) / scale / scale
    gap = far - far.mean(1, keepdim=True) if norm == "layer_norm" else far
    y = gap / torch.sqrt((gap**2).mean(1, keepdim=True) + eps)
    (torch.tensor(w) * y).sum().backward()
    assert far.grad is not None
    slope = far.grad.numpy()
    params = module.init(seed=0)
    inputs = given((x * scale).astype(float_), backend), given(w, backend)
    found = np.asarray(module.forward(params, inputs[0]))
    np.testing.assert_allclose(found, y.detach().numpy(), atol=rtol * float(y.abs().max()))
    found = np.asarray(module.loss_and_grad(params, *inputs)[1]["x"]).astype(float) * scale
    np.testing.assert_allclose(found, slope, atol=rtol * np.abs(slope).max())
