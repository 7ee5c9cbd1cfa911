"""Sizes may have any name: no word of a module, of Python, NumPy or torch gets another meaning by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from both_backends import given, module_of

NAMES = [
    "batch", "rows", "columns", "i", "x_ptr", "base", "BLOCK", "BLOCK_ROWS", "torch", "tl", "seed", "W", "peak",
    "total", "params", "device", "float", "range", "max", "PARAMS", "TENSORS", "row_mask", "math", "len", "dtype", "h",
]  # fmt: skip
SPEC = """
model m(x: f32[{0}, K]) -> y: [{0}, 3] where {0} < 20:
    a_ = x |> dense(3)
    y[n, k] = softmax[k](a_[n, k]) * {0} + max[m](x[m, 0])

train m(x: f32[{0}, 4], target: f32[{0}, 3]):
    minimize sum((m(x) - target)^2) / {0}
    using sgd(lr = 0.1)
""".replace("K]) ->", "4]) ->")


@pytest.mark.wide(4)
@pytest.mark.point("D")
@pytest.mark.parametrize("name", NAMES)
def test_a_size_of_any_name_is_that_size_on_triton(name: str, tmp_path: Path) -> None:
    module = module_of(SPEC.format(name), "triton", tmp_path)
    if name not in ("batch", "BLOCK", "seed", "rows", "W", "h"):
        return  # it is Python in which every name means something; to run it takes long
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32)
    params = module.init()
    w, b = (np.asarray(params[f"dense.{k}"], np.float64) for k in "Wb")
    h = x @ (w if w.shape == (4, 3) else w.T) + b
    e = np.exp(h - h.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True) * 5 + x[:, 0].max()
    np.testing.assert_allclose(module.forward(params, given(x, "triton")), y, rtol=1e-4)
    loss, _ = module.loss_and_grad(params, given(x, "triton"), given(target, "triton"))
    np.testing.assert_allclose(loss, ((y - target) ** 2).sum() / 5, rtol=1e-4)
    with pytest.raises(ValueError, match=f"needs {name} < 20, found {name} = 20"):
        module.forward(params, given(np.zeros((20, 4), np.float32), "triton"))
    with pytest.raises(ValueError, match=f"target: expected {name} = 5 along axis 0"):
        module.loss_and_grad(params, given(x, "triton"), given(target[:1], "triton"))
