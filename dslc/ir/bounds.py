"""Whole-number formulas of variables: their bounds, and comparisons that the bounds decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.sizes import Facts, Size, tidy

#: whether the lowest and the highest value of a difference, where they are known, decide a comparison
Test = Callable[[Size | None, Size | None], bool]

#: sizes are at least 1; nothing else is known
FACTS = Facts()


@dataclass(frozen=True)
class Linear:
    """`offset + sum of coefficient * variable`; a scan whose number of the step occurs counts as a variable below 0."""

    terms: dict[int, Size] = field(default_factory=dict)
    offset: Size = 0

    def minus(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for n, c in other.terms.items():
            terms[n] = tidy(terms.get(n, 0) - c)
        return Linear({n: c for n, c in terms.items() if c != 0}, tidy(self.offset - other.offset))

    def times(self, factor: Size) -> Linear:
        return Linear({n: tidy(c * factor) for n, c in self.terms.items()}, tidy(self.offset * factor))


def step_variable(scan: int) -> int:
    """The number of the step of a scan, as a variable."""
    return -1 - scan


def linear(root: ir.Scalar) -> Linear | None:
    """A scalar as a linear formula; None when it is none."""
    match root:
        case ir.Const() if isinstance(root.value, int) and not isinstance(root.value, bool):
            return Linear({}, root.value)
        case ir.SizeOf():
            return Linear({}, root.size)
        case ir.Var():
            return Linear({root.number: 1})
        case ir.Read(ir.Step("number") as step):
            return Linear({step_variable(step.scan): 1})
        case ir.Op("+" | "-" | "*" | "neg") if root.dtype in ("i32", "i64"):
            parts = [linear(x) for x in root.args]
            if any(x is None for x in parts):
                return None
            return _combined(root.name, [x for x in parts if x is not None])
    return None


def _combined(name: str, parts: Sequence[Linear]) -> Linear | None:
    match name, parts:
        case "neg", (a,):
            return a.times(-1)
        case "+", (a, b):
            return a.minus(b.times(-1))
        case "-", (a, b):
            return a.minus(b)
        case "*", (a, b) if not a.terms or not b.terms:
            return b.times(a.offset) if not a.terms else a.times(b.offset)
    return None


def scalar(x: Linear) -> ir.Scalar:
    """A formula of variables as a scalar."""
    total: ir.Scalar = ir.intern(ir.SizeOf(x.offset))
    for n, c in x.terms.items():
        total = ir.op("+", (ir.op("*", (ir.intern(ir.SizeOf(c)), ir.var(n)), "i64"), total), "i64")
    return total


def highest(x: Linear, sizes: Sequence[Size]) -> Size | None:
    """The largest value over all variables; None when the sign of a coefficient is open or a variable unbounded."""
    total = x.offset
    for n, c in x.terms.items():
        if n < 0 or n >= len(sizes):
            return None
        if FACTS.nonnegative(c):
            total = tidy(total + c * (sizes[n] - 1))
        elif not FACTS.nonnegative(-c):
            return None
    return total


def lowest(x: Linear, sizes: Sequence[Size]) -> Size | None:
    found = highest(x.times(-1), sizes)
    return None if found is None else tidy(-found)


def lies_within(x: Linear, sizes: Sequence[Size], least: Size, most: Size | None) -> bool:
    """Is a formula between two values whatever its variables are? With None, there is no upper one.

    >>> lies_within(Linear({0: 2}, 1), (4,), 0, 7), lies_within(Linear({0: 2}, 1), (4,), 0, 6)
    (True, False)
    """
    low, high = lowest(x, sizes), highest(x, sizes)
    above = low is not None and FACTS.nonnegative(tidy(low - least))
    return above and (most is None or (high is not None and FACTS.nonnegative(tidy(most - high))))


#: comparison -> from the lowest and the highest difference of its sides: certainly true, certainly false
COMPARISONS: dict[str, tuple[Test, Test]] = {
    "<": (lambda low, high: _not_above(high, -1), lambda low, high: _not_below(low, 0)),
    "<=": (lambda low, high: _not_above(high, 0), lambda low, high: _not_below(low, 1)),
    ">": (lambda low, high: _not_below(low, 1), lambda low, high: _not_above(high, 0)),
    ">=": (lambda low, high: _not_below(low, 0), lambda low, high: _not_above(high, -1)),
    "==": (
        lambda low, high: _not_below(low, 0) and _not_above(high, 0),
        lambda low, high: _not_below(low, 1) or _not_above(high, -1),
    ),
    "!=": (
        lambda low, high: _not_below(low, 1) or _not_above(high, -1),
        lambda low, high: _not_below(low, 0) and _not_above(high, 0),
    ),
}


def _not_below(low: Size | None, value: int) -> bool:
    return low is not None and FACTS.nonnegative(tidy(low - value))


def _not_above(high: Size | None, value: int) -> bool:
    return high is not None and FACTS.nonnegative(tidy(value - high))


def compared(name: str, low: Size | None, high: Size | None) -> bool | None:
    """A comparison of two numbers whose difference lies between two bounds, where these decide it.

    >>> compared("<=", None, 0), compared("<", 0, 5), compared("<", -1, 5)
    (True, False, None)
    """
    true, false = COMPARISONS[name]
    return True if true(low, high) else False if false(low, high) else None


def decided(s: ir.Scalar, sizes: Sequence[Size]) -> bool | None:
    """A comparison of positions that holds, or fails, whatever the variables are.

    >>> decided(ir.op("<", (ir.var(0), ir.const(5, "i64")), "bool"), (5,))
    True
    """
    found = _gap(s)
    return None if found is None else compared(found[0], lowest(found[1], sizes), highest(found[1], sizes))


def _gap(s: ir.Scalar) -> tuple[str, Linear] | None:
    """A comparison of positions as one of their difference with 0."""
    if not isinstance(s, ir.Op) or s.name not in COMPARISONS:
        return None
    left, right = (linear(x) for x in s.args)
    return None if left is None or right is None else (s.name, left.minus(right))


def decided_beyond(s: ir.Scalar, later: int, earlier: int) -> bool | None:
    """A comparison of positions where the variable `later` is greater than the variable `earlier`.

    >>> decided_beyond(ir.op("<=", (ir.var(1), ir.var(0)), "bool"), later=1, earlier=0)
    False
    """
    found = _gap(s)
    if found is None:
        return None
    name, gap = found
    slope = gap.terms.get(later, 0)
    if set(gap.terms) != {later, earlier} or gap.terms[earlier] != -slope:
        return None
    edge = tidy(gap.offset + slope)
    if FACTS.nonnegative(slope):
        return compared(name, edge, None)
    return compared(name, None, edge) if FACTS.nonnegative(-slope) else None
