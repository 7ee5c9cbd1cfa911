"""Parameters without axes: NumPy gives single numbers for them where it gives arrays for others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dslc

SPEC = """\
model m(x: f32[N]) -> y: [N]:
    param w: [] = 0.5
    y = w * x

train m(x, t: f32[N]):
    minimize mean((m(x) - t)^2)
    using sgd(lr = 0.25)
"""


def test_a_single_number_is_a_parameter_and_is_trained(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC)
    module = dslc.compile(spec)
    x, t = np.ones(3, np.float32), np.full(3, 2, np.float32)
    params = module.init()
    _, grads = module.loss_and_grad(params, x, t)
    params = {"w": params["w"] - np.float32(0.25) * grads["w"]}  # a np.float32, not an array
    assert params["w"] == 1.25
    np.testing.assert_array_equal(module.forward(params, x), np.full(3, 1.25, np.float32))
    params, _ = module.train_step(params, module.init_opt(params), x, t)
    assert params["w"] == 1.25 + 0.25 * 2 * 0.75
