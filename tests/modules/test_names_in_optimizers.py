"""Optimisers, their slots and hyper-parameters may have any name that `check` lets through."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from both_backends import BACKENDS, given, module_of

from dslc.diagnostics.spec_error import SpecError

NAMES = [
    "update", "range", "params", "opt", "grads", "flat", "np", "torch", "tl", "math", "forward", "init", "name", "x",
    "seed", "space", "loss", "metrics", "divide", "train_step", "value", "step", "table", "len", "BLOCK", "tensors",
]  # fmt: skip
#: what `opt` holds under these names, or an optimiser is given, so that `check` refuses them
REFUSED = {"slot": {"seed", "loss", "metrics", "step"}, "hyper": {"step"}, "name": set[str]()}
#: a call of Triton's interpreter takes long
ON_TRITON = ["update", "range", "params", "np", "tl", "BLOCK", "seed", "step"]
SPEC = """
optimizer {name}({hyper} = 0.1):
    slot {slot} = 0
    param <- param - {hyper} * grad - {hyper} * {slot}
    {slot} <- grad

model m(y: f32[N, 3]) -> z: [N]:
    param w: [3]
    z[n] = y[n, k] * w[k]

train m(y: f32[N, 3], target: f32[N]):
    minimize mean((m(y) - target)^2)
    using {name}({hyper} = 0.1)
"""


@pytest.mark.wide(4)
@pytest.mark.point("21")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", ["name", "hyper", "slot"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_an_optimiser_works_or_is_refused(name: str, place: str, backend: str, tmp_path: Path) -> None:
    if backend == "triton" and name not in ON_TRITON:
        return
    text = SPEC.format(**{"name": "own", "hyper": "lr", "slot": "g", place: name})
    if name in REFUSED[place]:
        with pytest.raises(SpecError, match=f"`{name}`"):
            module_of(text, backend, tmp_path)
        return
    module = module_of(text, backend, tmp_path)
    params = module.init()
    opt = module.init_opt(params)
    y, target = given(np.ones((2, 3), np.float32), backend), given(np.ones(2, np.float32), backend)
    w = before = 0.0
    for _ in range(2):
        module.train_step(params, opt, y, target)
        grad = 2 * (3 * w - 1)
        w, before = w - 0.1 * grad - 0.1 * before, grad
    np.testing.assert_allclose(np.asarray(params["w"]), np.full(3, w), rtol=1e-5)
