"""Every scalar operation: derivatives against torch, kinks as documented, and no rule without a test that needs it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.special
from marks import rows
from programs import evaluate, unit
from scalar_cases import CASES, GAMMA, UNIT, broken, mismatches

from dslc.autodiff import scalar as d
from dslc.autodiff.reverse import gradients, ones
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.ops.table import RECORDS
from dslc.passes.verify import verify


@rows("P32", "P03", "A37")
@pytest.mark.parametrize("name", CASES)
def test_value_and_two_derivatives_equal_those_of_torch(name: str) -> None:
    for case in CASES[name]:
        assert mismatches(case) == []


def test_every_operation_has_a_rule_or_is_flat() -> None:
    assert set(RECORDS) == set(d.RULES) | d.FLAT
    assert not set(d.RULES) & d.FLAT
    assert {name for name, record in RECORDS.items() if record.flat} <= d.FLAT


def test_every_rule_is_compared_with_torch() -> None:
    assert set(d.RULES) <= set(CASES)


@pytest.mark.parametrize("name", d.RULES)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(d.RULES, name, broken(d.RULES[name]))
    assert any(mismatches(case) for case in CASES[name])


def test_a_flat_operation_with_a_slope_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d, "FLAT", d.FLAT - {"floor"})
    monkeypatch.setitem(d.RULES, "floor", lambda y, a: (a,))
    assert any(mismatches(case) for case in CASES["floor"])


@pytest.mark.parametrize(("name", "points", "oracle"), [
    ("erfinv", [*UNIT, -0.999999, 0.9999999, 0.0, 1e-12], scipy.special.erfinv),
    ("digamma", [*GAMMA, 1e-3, 30.0, -7.25], scipy.special.digamma),
    ("trigamma", [*GAMMA, 1e-3, 30.0, -7.25], lambda x: scipy.special.polygamma(1, x)),
    ("lgamma", [*GAMMA, 1e-3, 30.0, -7.25], scipy.special.gammaln),
])  # fmt: skip
def test_special_functions_equal_those_of_scipy(name: str, points: list[float], oracle) -> None:  # type: ignore[no-untyped-def]
    x = ir.intern(ir.Input("x", "input", "f64", (len(points),)))
    y = ir.comp(x.shape, ir.op(name, (ir.whole(x),), "f64"))
    found = Interpreter({"x": np.asarray(points)}, {}).tensor(y)
    np.testing.assert_allclose(found, oracle(np.asarray(points)), rtol=1e-12, atol=1e-14)


def test_derivatives_of_lgamma_of_any_order_equal_those_of_mpmath() -> None:
    points = [*GAMMA, 0.5, 1e-3, 30.0, -7.25]
    x = ir.intern(ir.Input("x", "input", "f64", (len(points),)))
    y: ir.Tensor = ir.comp(x.shape, ir.op("lgamma", (ir.whole(x),), "f64"))
    machine = Interpreter({"x": np.asarray(points)}, {})
    for order in range(6):
        (y,) = gradients({y: ones(x.shape)}, [x])
        verify([y])
        expected = [float(mpmath.polygamma(order, p)) for p in points]
        np.testing.assert_allclose(machine.tensor(y), expected, rtol=1e-11, err_msg=f"polygamma({order}, x)")


def slope(formula: str, *points: float) -> list[float]:
    """The derivatives of a formula in x, y and z at a point, in this order."""
    names = "xyz"[: len(points)]
    text = f"fn f({', '.join(f'{n}: f64[]' for n in names)}) -> r: []:\n    r = {formula}\n"
    program = unit(text)
    found = gradients({program.outputs["r"]: ones(())}, [program.inputs[n] for n in names])
    verify(found)
    values = evaluate(program, dict(zip(names, points, strict=True)), dict(zip(names, found, strict=True)))
    return [float(values[n]) for n in names]


@rows("A50", "A53")
@pytest.mark.parametrize(("formula", "point", "expected"), [
    ("relu(x)", (0.0,), [0]),
    ("max(x, 0)", (0.0,), [0.5]),
    ("relu(-x) + x", (0.0,), [1]),
    ("(relu(x) + (relu(-x) + x)) / 2", (0.0,), [0.5]),
    ("abs(x)", (0.0,), [0]),
    ("sign(x) + round(x) + floor(x) + ceil(x) + trunc(x)", (0.0,), [0]),
    ("sign(x) + round(x) + floor(x) + ceil(x) + trunc(x)", (0.5,), [0]),
    ("max(x, y)", (2.0, 2.0), [0.5, 0.5]),
    ("min(x, y)", (2.0, 2.0), [0.5, 0.5]),
    ("max(x, y)", (2.0, 1.0), [1, 0]),
    ("clip(x, y, z)", (1.0, 1.0, 3.0), [0.5, 0.5, 0]),
    ("clip(x, y, z)", (3.0, 1.0, 3.0), [0.5, 0, 0.5]),
    ("hypot(x, y)", (0.0, 0.0), [0, 0]),
    ("sqrt(x^2 + y^2)", (0.0, 0.0), [0, 0]),
    ("sqrt(x * x)", (0.0,), [0]),
    ("(x^2 + y^2)^0.5", (0.0, 0.0), [0, 0]),
    ("(x^2 + y^2)^(1/2)", (0.0, 0.0), [0, 0]),
    ("sqrt(abs(x))", (0.0,), [0]),
    ("sqrt(relu(x))", (0.0,), [0]),
    ("sqrt(x if x > 0 else -x if x < 0 else 0)", (0.0,), [0]),
    ("abs(x) * y", (0.0, math.inf), [0, 0]),
    ("sqrt((x^2 + y^2) / 2)", (0.0, 0.0), [0, 0]),
    ("x^0", (0.0,), [0]),
    ("x^2", (0.0,), [0]),
    ("x^y", (0.0, 0.0), [0, 0]),
    ("x^y", (0.0, 2.0), [0, 0]),
    ("x if x > 0 else 3 * x", (0.0,), [3]),
    ("stop_grad(x) * x", (2.0,), [2]),
])  # fmt: skip
def test_derivatives_at_kinks(formula: str, point: tuple[float, ...], expected: list[float]) -> None:
    assert slope(formula, *point) == expected


@pytest.mark.parametrize("text", [
    "y = sqrt(sum[k](x[k]^2))",
    "y = sqrt(x[k] * x[k])",
    "y = sqrt(sum[k](x[k]^2) / K)",
    "y = sqrt(mean[k](x[k]^2))",
    "s = sum[k](x[k]^2)\n    y = sqrt(s)",
    "y = norm[k](x[k])",
    "y = sum[k](x[k]^2)^0.5",
    "y = sqrt(sum[k](abs(x[k])^2))",
])  # fmt: skip
@rows("P07")
def test_the_gradient_of_a_norm_at_0_is_0(text: str) -> None:
    program = unit(f"fn f(x: f64[K]) -> y: []:\n    {text}\n")
    (found,) = gradients({program.outputs["y"]: ones(())}, [program.inputs["x"]])
    assert evaluate(program, {"x": np.zeros(3)}, {"dx": found})["dx"].tolist() == [0, 0, 0]
    x = np.array([1.0, -2.0, 2.0])
    share = float(evaluate(program, {"x": x})["y"]) / 3
    np.testing.assert_allclose(evaluate(program, {"x": x}, {"dx": found})["dx"], share * x / 3, rtol=1e-14)


@pytest.mark.parametrize("op", ["max", "min"])
def test_ties_of_reductions_share_evenly(op: str) -> None:
    program = unit(f"fn f(x: f64[N, K]) -> y: [N]:\n    y[n] = {op}[k](x[n, k])\n")
    (found,) = gradients({program.outputs["y"]: ones(program.outputs["y"].shape)}, [program.inputs["x"]])
    x = np.array([[1.0, 1.0, 1.0, 1.0], [-2.0, 5.0, 5.0, -2.0]])
    expected = [[0.25] * 4, [0, 0.5, 0.5, 0] if op == "max" else [0.5, 0, 0, 0.5]]
    assert evaluate(program, {"x": x}, {"dx": found})["dx"].tolist() == expected
