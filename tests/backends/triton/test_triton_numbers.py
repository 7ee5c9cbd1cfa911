"""Sizes and indices as numbers in formulas mean the same in Triton modules, and results have their declared dtypes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text

TEXT = """
model m(x: [N, K], label: i32[N] < 9, steps = 1) -> (
    mean: [], half: [], scaled: [N, K], root: [], ramp: [N], weighted: [N, K], nothing: [N], counts: i32[N], best: [N],
    summed: [N], time: [], count: [9]
):
    mean = 1/N * sum(x)
    half = N / 2
    scaled[n, k] = (N - 1) / N * x[n, k]
    root = sqrt(N / 2)
    ramp[n: N] = n / N
    weighted[n, k] = k * x[n, k]
    nothing[n: N] = 0
    counts[n] = label[n] + n
    best[n] = argmax[k](x[n, k])
    summed[n] = x[n, k] * k * label[n]
    time = 0
    for i in 0..3:
        time = time + i / steps
    count[label[n]] += 1

"""


@pytest.mark.point("1", "6")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_whole_numbers_are_numbers_like_others(dtype: str, tmp_path: Path) -> None:
    spec = tmp_path / "numbers.dsl"
    spec.write_text(TEXT, encoding="utf-8")
    x, label = np.random.default_rng(0).standard_normal((5, 3)), np.array([1, 1, 0, 8, 3])
    kept = {"f32": torch.float32, "f64": torch.float64}[dtype]
    module = load(compile_text(spec, "triton", dtype=dtype), tmp_path)
    found = module.forward({}, torch.tensor(x, dtype=kept), torch.tensor(label))
    n, k = np.arange(5), np.arange(3)
    wanted = {
        "mean": x.sum() / 5, "half": 2.5, "scaled": 0.8 * x, "root": np.sqrt(2.5), "ramp": n / 5, "weighted": k * x,
        "nothing": 0 * n, "counts": label + n, "best": x.argmax(1), "summed": (k * x).sum(1) * label, "time": 3,
        "count": np.bincount(label, minlength=9),
    }  # fmt: skip
    assert {name: value.dtype for name, value in found.items()} == dict.fromkeys(wanted, kept) | {"counts": torch.int32}
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, 1e-5, 1e-6)
