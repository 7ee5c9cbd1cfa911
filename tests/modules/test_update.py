"""`update` is the second half of `train_step`: the optimiser alone, by gradients that are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_backends import BACKENDS, given, leaves, module_of

import dslc

SPEC = """
model m(x: f32[N, 4]) -> y: [N]:
    h = x |> dense(5) |> batch_norm |> relu |> dropout(0.2) |> dense(1)
    y = h[:, 0]

train m(x, target: f32[N]):
    minimize mean((m(x) - target)^2)
    freeze dense2.b
    using {optimizer}
"""


def batch(backend: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return given(rng.normal(size=(6, 4)).astype(np.float32), backend), given(rng.normal(size=6).astype("f4"), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimizer", ["adamw(lr = 1e-2 / sqrt(step))", "clipped_momentum(clip = 0.1)"])
def test_gradients_and_then_update_are_a_training_step(optimizer: str, backend: str, tmp_path: Path) -> None:
    module = module_of(SPEC.replace("{optimizer}", optimizer), backend, tmp_path)
    x, target = batch(backend)
    whole, parts = module.init(0), module.init(0)
    opt_whole, opt_parts = module.init_opt(whole, 3), module.init_opt(parts, 3)
    for step in range(3):
        module.train_step(whole, opt_whole, x, target)
        _, grads, _, state = module.loss_grad_metrics(parts, x, target, opt_parts["state"], seed=3 + step + 1)
        opt_parts["state"].update(state)
        module.update(parts, opt_parts, grads)
    assert opt_parts["step"] == 3
    for (name, a), (_, b) in zip(leaves((whole, opt_whole)), leaves((parts, opt_parts)), strict=False):
        assert a.tobytes() == b.tobytes(), name


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_without_a_gradient_stay_as_they_are(backend: str, tmp_path: Path) -> None:
    module = module_of(SPEC.replace("{optimizer}", "sgd(lr = 0.1)"), backend, tmp_path)
    params = module.init(0)
    before = {name: np.asarray(x).copy() for name, x in params.items()}
    opt = module.init_opt(params)
    _, grads, *_ = module.loss_grad_metrics(params, *batch(backend), opt["state"])
    module.update(params, opt, {"dense.W": grads["dense.W"]})
    np.testing.assert_allclose(
        np.asarray(params["dense.W"]), before.pop("dense.W") - 0.1 * np.asarray(grads["dense.W"]), rtol=1e-6
    )
    for name, value in before.items():
        assert np.array_equal(np.asarray(params[name]), value), name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [("dense.W", (5, 4), r"grads\.dense\.W: expected"), ("head.W", (4, 5), r"grads\.head\.W is unknown")],
)
def test_a_gradient_that_does_not_fit_is_named(
    name: str, shape: tuple[int, ...], told: str, backend: str, tmp_path: Path
) -> None:
    module = module_of(SPEC.replace("{optimizer}", "sgd(lr = 0.1)"), backend, tmp_path)
    params = module.init(0)
    opt = module.init_opt(params)
    with pytest.raises(ValueError, match=told):
        module.update(params, opt, {name: given(np.ones(shape, np.float32), backend)})
    assert opt["step"] == 0


def test_numpy_updates_in_the_dtype_of_parameters_also_where_a_rate_changes(tmp_path: Path) -> None:
    """A rate of NumPy's own floats would make arrays of float64, which take twice as long and round elsewhere."""
    path = tmp_path / "rate.dsl"
    path.write_text(
        "model m(x: [N, 999]) -> y: [N]:\n    param w: [999] ~ normal(0.5)\n    y[n] = x[n, i] * w[i]\n\n"
        "train m(x: [N, 999]):\n    minimize mean(m(x)^2)\n    using sgd(lr = 0.1 * min(1, step / 7))\n",
        encoding="utf-8",
    )
    m = dslc.compile(path)
    params = m.init(seed=0)
    before, grad = params["w"].copy(), np.random.default_rng(0).normal(size=999).astype(np.float32)
    m.update(params, m.init_opt(params), {"w": grad})
    np.testing.assert_array_equal(params["w"], before - np.float32(0.1 * (1 / 7)) * grad)
