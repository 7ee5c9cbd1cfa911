"""Reductions of rows in C against NumPy in float64: of any length, with zeros, infinities and a NaN at each place."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dslc import compile as compiled

SPEC = """
model rows(x: f32[N, {length}]) -> (total: [N], times: [N], most: [N], least: [N], y: [N, {length}]):
    total[n] = sum[k](x[n, k])
    times[n] = prod[k](x[n, k])
    most[n] = max[k](x[n, k])
    least[n] = min[k](x[n, k])
    y[n, k] = softmax[k](x[n, k])
"""
#: lengths that are known when a module is compiled: with sides that are whole, and with a rest
KNOWN = (1, 63, 64, 160, 171)


def module_of(length: str, tmp_path: Path) -> Any:
    (tmp_path / "rows.dsl").write_text(SPEC.format(length=length), encoding="utf-8")
    return compiled(tmp_path / "rows.dsl", "c")


def check(module: Any, length: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.choice([-1.0, 1.0], (3 * length, length)) * rng.uniform(0.9, 1.1, (3 * length, length))
    at = np.arange(length)
    x[length + at, at] = np.nan
    x[2 * length + at, at] = rng.choice([np.inf, -np.inf, 0.0], length)
    x = x.astype(np.float32)
    wide = x.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shifted = np.exp(wide - wide.max(1, keepdims=True))
        wanted = {
            "total": wide.sum(1), "times": wide.prod(1), "most": wide.max(1), "least": wide.min(1),
            "y": shifted / shifted.sum(1, keepdims=True),
        }  # fmt: skip
    found = module.forward({}, x)
    plain = ~np.isposinf(x).any(1)  # of an infinite largest entry, NumPy's formula knows nothing
    for name in ("most", "least"):
        np.testing.assert_array_equal(found[name], wanted[name].astype(np.float32), err_msg=name)
    np.testing.assert_allclose(found["total"], wanted["total"], rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(found["times"], wanted["times"], rtol=2e-5)
    np.testing.assert_allclose(found["y"][plain], wanted["y"][plain], rtol=3e-6)


@pytest.mark.parametrize("length", KNOWN)
def test_rows_of_known_length(length: int, tmp_path: Path) -> None:
    check(module_of(str(length), tmp_path), length)


def test_rows_of_any_length(tmp_path: Path) -> None:
    module = module_of("K", tmp_path)
    for length in (*range(1, 70), 95, 96, 97, 127, 128, 129, 200):
        check(module, length)
