"""A part of a formula that a condition hides takes no part in the sum around it."""

from __future__ import annotations

from pathlib import Path

import guarded
import numpy as np
import pytest
from programs import run
from samples import load

from dslc.compiler import compile_text
from dslc.ir import nodes as ir
from dslc.passes.finite import is_finite


@pytest.mark.point("A")
def test_a_guarded_product_keeps_its_guard_in_a_sum(tmp_path: Path) -> None:
    guarded.compare(tmp_path, "numpy")


@pytest.mark.point("A")
@pytest.mark.parametrize("formula", [
    "sum[k](w[k] * x[n, k] if m[n, k] else 0)",
    "sum[k](x[n, k] * x[n, k] if m[n, k] else 0)",
    "sum[k](w[k] / x[n, k] if m[n, k] else 0)",
])  # fmt: skip
def test_missing_data_behind_a_mask_do_no_harm(formula: str, tmp_path: Path) -> None:
    text = f"model m(x: f64[N, K], w: f64[K], m: bool[N, K]) -> y: [N]:\n    y[n] = {formula}\n"
    spec = tmp_path / "m.dsl"
    spec.write_text(text, encoding="utf-8")
    x = np.array([[1.0, np.nan, 3.0], [np.inf, 5.0, 7.0]])
    values = {"x": x, "w": np.array([0.5, 2.0, 4.0]), "m": np.isfinite(x)}
    found = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, *values.values())
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, run(text, **values), rtol=1e-15)


def test_what_is_finite_is_known_through_names() -> None:
    x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    w = ir.intern(ir.Input("w", "param", "f64", (3,)))
    log = ir.comp((3,), ir.op("log", (ir.whole(x),), "f64"))
    total = ir.comp((), ir.op("*", (ir.whole(w), ir.whole(log)), "f64"), "sum", (3,))
    assert is_finite(ir.whole(x)) and not is_finite(ir.whole(x), data=True)
    assert is_finite(ir.whole(w), data=True)
    assert not is_finite(ir.read(total, ()))


def test_a_function_is_finite_where_its_record_says() -> None:
    x = ir.whole(ir.intern(ir.Input("x", "input", "f64", (3,))))
    squared, above = ir.op("*", (x, x), "f64"), ir.op("+", (ir.op("*", (x, x), "f64"), ir.const(1.0, "f64")), "f64")
    found = {name: [is_finite(ir.op(name, (a,), "f64")) for a in (x, squared, above)] for name in ("sqrt", "log")}
    assert found == {"sqrt": [False, True, True], "log": [False, False, True]}
    assert is_finite(ir.op("normal_cdf", (x,), "f64")) and not is_finite(ir.op("lgamma", (x,), "f64"))


@pytest.mark.point("H")
@pytest.mark.parametrize("columns", [(), (2,)])
def test_a_row_that_is_not_finite_stays_where_a_scatter_puts_it(columns: tuple[int, ...], tmp_path: Path) -> None:
    guarded.scatter(tmp_path, "numpy", columns)
