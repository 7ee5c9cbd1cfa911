"""What the checker of the IR refuses, one broken program each."""

from __future__ import annotations

import numpy as np
import pytest

from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.verify import verify

X = ir.intern(ir.Input("x", "input", "f64", (3, 4)))
K = ir.intern(ir.Input("k", "input", "i64", (3,)))


def refused(message: str, *outputs: ir.Tensor) -> None:
    with pytest.raises(AssertionError, match=message):
        verify(outputs)


def test_a_legal_program_passes_and_has_the_value_that_it_says() -> None:
    total = ir.comp((3,), ir.whole(X), "sum", (4,))
    chosen = ir.comp((3,), ir.read(X, (ir.plain(0), ir.intern(ir.Data(ir.read(K, (ir.plain(0),)))))))
    verify([total, chosen, X, K])
    x, k = np.arange(12.0).reshape(3, 4), np.array([3, 0, 2])
    found = Interpreter({"x": x, "k": k}, {}).run({"total": total, "chosen": chosen})
    np.testing.assert_array_equal(found["total"], [6, 22, 38])
    np.testing.assert_array_equal(found["chosen"], [3, 4, 10])


def test_a_variable_out_of_range() -> None:
    refused("`y`: variable 2 of 2", ir.comp((3, 4), ir.op("cast", (ir.var(2),), "f64"), name="y"))
    refused("variable 5 of 1", ir.comp((3,), ir.read(X, (ir.plain(0), ir.plain(5)))))


def test_a_read_with_another_number_of_places() -> None:
    refused("1 places for 2 axes", ir.comp((3,), ir.read(X, (ir.plain(0),))))


def test_operations_on_other_kinds_of_values() -> None:
    value = ir.read(K, (ir.plain(0),))
    refused("`and` of i64, i64 gives bool", ir.comp((3,), ir.op("and", (value, value), "bool")))
    refused("`/` of i64, i64 gives i64", ir.comp((3,), ir.op("/", (value, value), "i64")))
    refused("`\\+` of i64, i64 gives f64", ir.comp((3,), ir.op("+", (value, value), "f64")))
    refused("`select` of i64", ir.comp((3,), ir.op("select", (value, value, value), "i64")))
    refused("`exp` with 2 arguments", ir.comp((3,), ir.op("exp", (value, value), "f64")))
    refused("no operation `magic`", ir.comp((3,), ir.op("magic", (value,), "f64")))


def test_a_place_that_is_no_whole_number() -> None:
    at = ir.intern(ir.Data(ir.whole(X)))
    refused("a place of f64", ir.comp((3, 4), ir.read(K, (at,))))


def test_reduced_variables_without_a_reduction() -> None:
    refused("reduced variables", ir.intern(ir.Comp((3,), (4,), None, ir.whole(X), "f64")))
    refused("no reduction `median`", ir.intern(ir.Comp((3,), (4,), "median", ir.whole(X), "f64")))


def test_a_reshape_with_another_number_of_elements() -> None:
    refused("another number of elements", ir.intern(ir.Reshape(X, (3, 5), "f64")))


def test_a_step_outside_of_its_scan() -> None:
    step = ir.intern(ir.Step("number", 77, 0, "i64", ()))
    refused("step of scan", ir.comp((), ir.op("cast", (ir.read(step, ()),), "f64")))


def test_a_carry_of_another_shape_than_its_start() -> None:
    carry = ir.intern(ir.Step("carry", 78, 0, "f64", (3,)))
    after = ir.comp((3,), ir.op("exp", (ir.whole(carry),), "f64"))
    start = ir.comp((4,), ir.const(0.0, "f64"))
    scan = ir.intern(ir.Scan(78, 5, False, (start,), (after,), (after,)))
    refused("carry of shape", ir.intern(ir.Part(scan, 0, "f64", (5, 3))))


def test_two_scans_with_one_number() -> None:
    carry = ir.intern(ir.Step("carry", 79, 0, "f64", (3,)))
    after = ir.comp((3,), ir.op("exp", (ir.whole(carry),), "f64"))
    zero = ir.comp((3,), ir.const(0.0, "f64"))
    first = ir.intern(ir.Part(ir.intern(ir.Scan(79, 5, False, (zero,), (after,), (after,))), 0, "f64", (5, 3)))
    more = ir.intern(ir.Part(ir.intern(ir.Scan(79, 5, False, (zero,), (after,), (carry, after))), 1, "f64", (5, 3)))
    other = ir.intern(ir.Part(ir.intern(ir.Scan(79, 5, True, (zero,), (after,), (after,))), 0, "f64", (5, 3)))
    verify([first, more])
    refused("two scans with one number", first, other)


def test_a_part_that_is_none() -> None:
    along = ir.intern(ir.Along("cumsum", (X,), 1, ((3, 4),), ("f64",)))
    refused("value 1 of 1", ir.intern(ir.Part(along, 1, "f64", (3, 4))))
    refused("shape", ir.intern(ir.Part(along, 0, "f64", (4, 3))))


def test_a_scatter_with_another_number_of_places() -> None:
    refused(
        "1 places for 2 axes",
        ir.intern(ir.Scatter((3, 4), (3,), (ir.plain(0),), "+", ir.const(1.0, "f64"), None, "f64")),
    )
