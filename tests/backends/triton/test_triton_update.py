"""The optimiser updates all parameters in one launch."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from triton_modules import numpy_module, triton_module

SPEC = """
model m(x: f32[N, 5]) -> y: [N]:
    param a: [] ~ normal
    param b: [1] ~ normal
    param c: [5, 700] ~ normal(0.1)
    param d: [1024] ~ normal
    param e: [700] ~ normal
    h[n, k] = tanh(x[n, i] * c[i, k])
    y[n] = a * h[n, k] * e[k] + b[0] * x[n, 0] + mean[j](d[j]^2)

train m(x, t: f32[N]):
    minimize mean[n]((m(x)[n] - t[n])^2)
    using {optimizer}
"""


def written(folder: Path, optimizer: str) -> Path:
    spec = folder / "update.dsl"
    spec.write_text(SPEC.replace("{optimizer}", optimizer), encoding="utf-8")
    return spec


@pytest.mark.wide(8)
@pytest.mark.parametrize(
    "optimizer", ["adamw(lr = 1e-2)", "sgd(lr = 0.1)", "momentum(lr = 0.01)", "clipped(lr = 0.01)"]
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_steps_on_tensors_of_many_lengths_are_those_of_the_numpy_module(
    optimizer: str, dtype: str, tmp_path: Path
) -> None:
    spec = written(tmp_path, optimizer)
    if optimizer.startswith("clipped"):
        own = "optimizer clipped(lr = 0.1):\n    param <- param - lr * grad / max(1, grad_norm)\n"
        spec.write_text(own + spec.read_text(encoding="utf-8"), encoding="utf-8")
    ours, theirs = triton_module(spec, tmp_path, dtype), numpy_module(spec, tmp_path, dtype)
    b = theirs.init(0)
    a = {k: torch.as_tensor(v.copy()) for k, v in b.items()}
    opt_a, opt_b = ours.init_opt(a), theirs.init_opt(b)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x, t = rng.normal(size=(4, 5)), rng.normal(size=4)
        ours.train_step(a, opt_a, x, t)
        theirs.train_step(b, opt_b, x, t)
    tolerance = 1e-4 if dtype == "f32" else 1e-9
    for name, value in b.items():
        np.testing.assert_allclose(a[name].numpy(), value, rtol=tolerance, atol=tolerance, err_msg=name)


def test_a_step_launches_one_kernel_for_all_parameters(tmp_path: Path) -> None:
    triton_module(written(tmp_path, "adamw(lr = 1e-2)"), tmp_path)
    text = (tmp_path / "update_triton.py").read_text(encoding="utf-8")
    step = re.search(r"def update.*?(?=\n\n\n)", text, re.S)
    assert step is not None and len(re.findall(r"\w+\[\(", step[0])) == 1 and "\n    for " not in step[0]
