"""Sizes that a spec names have these names in NumPy modules, and mean the same there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dslc.compiler import compile_text, imported

SPEC = """
model m(x: [N, H, W, 1]) -> (y: [N], ramp: [N, {0} = H + W - 1]) where H > 4, W > 4:
    h = x |> conv2d(2, kernel = 5, stride = 2)
    h = h |> conv2d(2, kernel = 3, stride = 2, pad = 1)
    y[n] = mean[...](h[n, ...]^2)
    ramp[n, k] = k * x[n, 0, 0, 0]

train m(x: [N, H, W, 1]) where H > 4, W > 4:
    minimize mean(m(x).y)
    using sgd(lr = 0.1)
"""


@pytest.mark.parametrize("name", ["S", "P", "N_", "np", "H2"])
def test_named_sizes_are_computed_once_and_mean_what_they_say(name: str, tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC.format(name), encoding="utf-8")
    text = compile_text(spec, dtype="f64")
    for function in ("forward", "loss_grad_metrics"):
        body = re.split(rf"def {function}\(", text)[1].split("\n\n\n")[0]
        code = [x for x in body.splitlines() if not x.strip().startswith("#")]
        quotients = [x for x in code if re.search(r"\([HW] [+-] \d\) // ", x)]
        assert quotients and all(re.fullmatch(r"    [PQ]\d? = .*", x) for x in quotients)
        assert not any("H + W" in x for x in code if " = H + W - 1" not in x)
    module = imported(text, "named_sizes")
    params, x = module.init(3), np.random.default_rng(0).normal(size=(2, 9, 12, 1))
    loss, grads = module.loss_and_grad(params, x)
    weights = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    h = torch.tensor(x).permute(0, 3, 1, 2)
    for layer, pad in (("conv2d", 0), ("conv2d2", 1)):
        kernel = weights[f"{layer}.K"].permute(3, 2, 0, 1)
        h = torch.nn.functional.conv2d(h, kernel, weights[f"{layer}.b"], stride=2, padding=pad)
    expected = (h**2).mean()
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-12)
    for path, weight in weights.items():
        np.testing.assert_allclose(grads[path], weight.grad, rtol=1e-10)
    ramp = module.forward(params, x)["ramp"]
    np.testing.assert_array_equal(ramp, np.arange(20) * x[:, 0, 0])
