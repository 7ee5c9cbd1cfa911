"""Numbers known at compile time: exact arithmetic within bounds, and the check that a number can be a size."""

from __future__ import annotations

import math

import sympy as sp

from dslc.check import expressions
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import (
    SizeValue,
)
from dslc.check.values import (
    StaticValue,
    Val,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import MAX_AXIS, MAX_POWER_BITS, Size, floor_div, modulo, show, tidy
from dslc.source import Span
from dslc.syntax import tree as t


def fold_compare(frame: Frame, op: str, a: StaticValue, b: StaticValue) -> bool | None:
    """A comparison of static numbers, when it can be decided."""
    if isinstance(a, sp.Basic) or isinstance(b, sp.Basic):
        if isinstance(a, float | bool | str) or isinstance(b, float | bool | str):
            return None
        facts = frame.facts
        if op in ("==", "!="):
            equal = facts.equal(a, b)
            return None if equal is None else equal == (op == "==")
        if op in (">", "<="):
            flipped = fold_compare(frame, "<" if op == ">" else ">=", b, a)
            return flipped
        if op == "<":
            if facts.nonnegative(tidy(b - a - 1)):
                return True
            return False if facts.nonnegative(tidy(a - b)) else None
        less = fold_compare(frame, "<", a, b)
        return None if less is None else not less
    table = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}  # type: ignore[operator]
    return table[op]


def fold(scope: Scope, op: str, a: StaticValue, b: StaticValue, span: Span) -> StaticValue | None:
    """Arithmetic on numbers known at compile time: exact on whole numbers and sizes, bounded in size."""
    frame = scope.frame
    assert not isinstance(a, str) and not isinstance(b, str)
    if op in ("/", "//", "%") and not isinstance(b, sp.Basic) and b == 0:
        frame.report(kinds.DIVISION_BY_ZERO(Label(span)))
        return None
    if op == "^":
        return _power(scope, a, b, span)
    exact = not isinstance(a, float) and not isinstance(b, float)
    if op in ("//", "%") and not exact:
        frame.report(kinds.WHOLE_EXPECTED(Label(span), op=op))
        return None
    if not exact:
        x, y = _as_float(a), _as_float(b)
        if x is None or y is None:  # a float with a symbolic size: left to run time
            frame.report(kinds.STATIC_NEEDED(Label(span), what="this mix of a float and a size"))
            return None
        value = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[op]()
        return value
    if op == "+":
        return tidy(a + b)
    if op == "-":
        return tidy(a - b)
    if op == "*":
        result = tidy(a * b)
        if isinstance(result, int) and abs(result) > 2**80:
            frame.report(kinds.SIZE_BOUND(Label(span), found=_shortened(result), limit=MAX_AXIS))
            return None
        return result
    if op == "//":
        return floor_div(a, b)
    if op == "%":
        return modulo(a, b)
    value = sp.Rational(a, b) if isinstance(a, int) and isinstance(b, int) else sp.sympify(a, strict=True) / b
    return tidy(value)


def _as_float(value: StaticValue) -> float | None:
    if isinstance(value, sp.Basic):
        return float(value) if value.is_number else None
    assert not isinstance(value, str)
    return float(value)


def _power(scope: Scope, a: StaticValue, b: StaticValue, span: Span) -> StaticValue | None:
    frame = scope.frame
    if isinstance(a, float) or isinstance(b, float) or (isinstance(b, int) and b < 0) or isinstance(b, sp.Rational):
        x, y = _as_float(a), _as_float(b)
        if x is None or y is None:
            frame.report(kinds.STATIC_NEEDED(Label(span), what="this power"))
            return None
        try:
            value = math.pow(x, y)
        except (ValueError, OverflowError, ZeroDivisionError):
            frame.report(kinds.NUMBER_TOO_LARGE(Label(span), limit="1.797e308", found=span.text))
            return None
        return value
    if not isinstance(b, int) or (isinstance(a, sp.Basic) and b > 8):
        frame.report(kinds.STATIC_NEEDED(Label(span), what="this power"))
        return None
    if isinstance(a, int) and abs(a).bit_length() * b > MAX_POWER_BITS:
        frame.report(kinds.SIZE_BOUND(Label(span), found=span.text, limit=MAX_AXIS))
        return None
    assert not isinstance(a, str)
    return tidy(a**b)


def _shortened(value: int) -> str:
    text = str(value)
    return text if len(text) < 30 else f"{text[:12]}... ({len(text)} digits)"


def static(scope: Scope, node: t.Expr, what: str) -> StaticValue | None:
    """An expression that must be known at compile time."""
    val = expressions.expression(scope, node)
    if val.poisoned:
        return None
    if val.static is None:
        scope.frame.report(kinds.STATIC_NEEDED(Label(node.span), what=what))
        return None
    return val.static


def as_size(scope: Scope, node: t.Expr, least: int | None = 1, what: str = "a size") -> Size | None:
    """An expression that must be a whole number known at compile time, or made of sizes."""
    val = expressions.expression(scope, node)
    if val.poisoned:
        return None
    if val.static is None and isinstance(val.expr, SizeValue):
        val = Val(static=val.expr.size)
    if val.static is None or isinstance(val.static, str | bool):
        scope.frame.report(
            kinds.SIZE_EXPECTED(Label(node.span), what=what, found=expressions.describe(scope.frame, val))
        )
        return None
    return check_size(scope.frame, val.static, node.span, least, what)


def check_size(
    frame: Frame, value: StaticValue, span: Span, least: int | None = 1, what: str = "a size"
) -> Size | None:
    """Is a static number a whole number within bounds?"""
    if isinstance(value, float):
        if not value.is_integer() or abs(value) > 2**53:
            frame.report(kinds.SIZE_EXPECTED(Label(span), what=what, found=f"the number {value}"))
            return None
        help = f"write `{int(value)}`"
        frame.report(kinds.SIZE_EXPECTED(Label(span), what=what, found=f"the float {value}", help=help))
        return None
    assert not isinstance(value, str)
    size: Size = value if isinstance(value, int) else tidy(value)
    facts = frame.facts
    if not facts.whole(size):
        numerator, denominator = sp.together(sp.sympify(size, strict=True)).as_numer_denom()
        a, b = frame.show(numerator), frame.show(denominator)
        known = numerator.is_number and denominator.is_number
        help = (
            f"write `{a} // {b}` to round down" if known else f"add `where {a} % {b} == 0`, or write `//` to round down"
        )
        frame.report(kinds.NOT_DIVISIBLE(Label(span), a=a, b=b, help=help))
        return None
    size = facts.normal(size)
    if isinstance(size, int):
        if abs(size) > MAX_AXIS:
            frame.report(kinds.SIZE_BOUND(Label(span), found=_shortened(size), limit=MAX_AXIS))
            return None
        if least is not None and size < least:
            frame.report(kinds.SIZE_TOO_SMALL(Label(span), what=what, found=size, least=least))
            return None
    elif least is not None and not facts.nonnegative(tidy(size - least)):
        shown = show(size)
        help = f"state it: `where {shown} >= {least}`"
        frame.report(kinds.SIZE_MAY_BE_SMALL(Label(span), what=what, found=shown, least=least, help=help))
        return None
    return size
