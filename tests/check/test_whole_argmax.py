"""`argmax(y)` of a matrix: a position among all of its entries is nobody's accuracy, so the index is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from natural import BACKENDS
from samples import load

from dslc.compiler import compile_text
from dslc.frontend import check_text

HEAD = "fn f(x: [N, K], label: i64[N]) -> y: []:\n"


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_index_is_asked_for_where_there_are_several(op: str) -> None:
    (found,) = check_text(f"{HEAD}    y = mean(1 if {op}(x) == label else 0)\n", "f.dsl").diagnostics
    assert found.code == "E0334"
    assert f"`{op}[j](x[i, j])`" in (found.help or "")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("line", ["argmax(x[n, :])", "argmax[k](x[n, k])", "argmax[m, k](x[n, k] + 0 * label[m])"])
def test_one_axis_or_named_ones_are_as_in_numpy(line: str, backend: str, tmp_path: Path) -> None:
    spec = tmp_path / "f.dsl"
    spec.write_text(f"model m(x: f64[N, K], label: i64[M]) -> y: i64[N]:\n    y[n] = {line}\n", encoding="utf-8")
    x = np.random.default_rng(0).normal(size=(4, 3))
    arrays: list[object] = [x, np.zeros(2, np.int64)]
    if backend == "triton":
        import torch

        arrays = [torch.as_tensor(a) for a in arrays]
    found = load(compile_text(spec, backend, {}, "f64"), tmp_path, f"whole_{backend}_{len(line)}").forward({}, *arrays)
    np.testing.assert_array_equal(np.asarray(found), x.argmax(1))
