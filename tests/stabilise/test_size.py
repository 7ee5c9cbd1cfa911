"""Rules, and what derivatives look at, take time in proportion to the program, however often values are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dslc.autodiff.reverse import gradients, ones
from dslc.ir import nodes as ir
from dslc.stabilise import matching, rewriter
from dslc.stabilise.rewriter import stabilise


def doubled(count: int) -> tuple[ir.Tensor, ir.Tensor]:
    """x / (1 + exp(-x)) - log(x + 2), applied to itself: each value is used three times."""
    x = ir.intern(ir.Input("x", "input", "f64", (5,)))
    s: ir.Scalar = ir.whole(x)
    for k in range(count):
        below = ir.op("+", (ir.const(1.0, "f64"), ir.op("exp", (ir.op("neg", (s,), "f64"),), "f64")), "f64")
        log = ir.op("log", (ir.op("+", (s, ir.const(k + 2.0, "f64")), "f64"),), "f64")
        s = ir.op("-", (ir.op("/", (s, below), "f64"), log), "f64")
    return ir.comp((5,), s), x


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often a rule looks at an operation."""
    calls = [0]

    def counting(rule: rewriter.Rule) -> rewriter.Rule:
        def each(s: ir.Op) -> ir.Scalar | None:
            calls[0] += 1
            return rule(s)

        each.__name__ = rule.__name__
        return each

    with monkeypatch.context() as patch:
        for name, group in rewriter.RULES.items():
            patch.setitem(rewriter.RULES, name, tuple(counting(r) for r in group))
        yield calls


def test_work_grows_with_the_number_of_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    work = []
    for count in (50, 100):
        with ir.compilation(), counted(monkeypatch) as calls:
            y, _ = doubled(count)
            stabilise({"y": y})
        work.append(calls[0])
    assert work[1] < 2.1 * work[0]


def test_values_that_are_used_many_times_do_not_multiply_the_work() -> None:
    """Walks that forget what they have seen would need 3^60 steps here."""
    y, x = doubled(60)
    out = stabilise({"y": y})
    (slope,) = gradients({out["y"]: ones((5,))}, [x])
    assert stabilise({**out, "dx": slope})["y"] is out["y"]


def test_signs_are_looked_for_a_few_operations_deep() -> None:
    s: ir.Scalar = ir.whole(ir.intern(ir.Input("x", "input", "f64", ())))
    for _ in range(200):
        s = ir.op("+", (s, s), "f64")
    assert not matching.nonnegative(s)
