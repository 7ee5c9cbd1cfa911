"""After scans are merged, a number means one loop."""

from __future__ import annotations

import numpy as np

from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.merge_scans import merge_scans
from dslc.passes.transform import everything

X = ir.intern(ir.Input("x", "input", "f64", (3,)))
NUMBER = ir.fresh_number()
STEP = ir.intern(ir.Step("number", NUMBER, 0, "i64", ()))
CARRY = ir.intern(ir.Step("carry", NUMBER, 0, "f64", (3,)))


def scan(factor: float, *results: ir.Tensor) -> ir.Scan:
    """h[t] = factor * h[t-1] + t, and other values of the step."""
    grown = ir.op("*", (ir.whole(CARRY), ir.const(factor, "f64")), "f64")
    after = ir.comp((3,), ir.op("+", (grown, ir.read(STEP, ())), "f64"))
    return ir.intern(ir.Scan(NUMBER, 4, False, (X,), (after,), (after, *results)))


def part(of: ir.Scan, number: int) -> ir.Part:
    return ir.intern(ir.Part(of, number, "f64", (4, 3)))


def merged(**outputs: ir.Tensor) -> list[ir.Scan]:
    """The scans of a program after merging, which changes no value."""
    found = merge_scans(outputs)
    values = {"x": np.array([1.0, 2.0, 3.0])}
    before, after = (Interpreter(values, {}).run(dict(x)) for x in (outputs, found))
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    return list(dict.fromkeys(x for x in everything(found) if isinstance(x, ir.Scan)))


def test_scans_that_differ_in_their_results_are_one_loop() -> None:
    (found,) = merged(a=part(scan(0.5), 0), b=part(scan(0.5, CARRY), 1))
    assert found.number == NUMBER and len(found.results) == 2


def test_scans_that_carry_other_values_get_numbers_of_their_own() -> None:
    found = merged(a=part(scan(0.5), 0), b=part(scan(0.25), 0), c=part(scan(0.25, CARRY), 1))
    assert len(found) == len({x.number for x in found}) == 2
    assert sorted(len(x.results) for x in found) == [1, 2]


def test_loops_inside_of_such_scans_get_numbers_of_their_own_too() -> None:
    number = ir.fresh_number()
    carry = ir.intern(ir.Step("carry", number, 0, "f64", (3,)))

    def nested(factor: float) -> ir.Tensor:
        added = ir.comp((3,), ir.op("+", (ir.whole(carry), ir.whole(CARRY)), "f64"))
        inner = ir.intern(ir.Scan(number, 2, False, (X,), (added,), ()))
        last = ir.intern(ir.Part(inner, 0, "f64", (3,)))
        after = ir.comp((3,), ir.op("*", (ir.whole(last), ir.const(factor, "f64")), "f64"))
        return part(ir.intern(ir.Scan(NUMBER, 4, False, (X,), (after,), (after,))), 0)

    found = merged(a=nested(0.5), b=nested(0.25))
    assert len(found) == len({x.number for x in found}) == 4
