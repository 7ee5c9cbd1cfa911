"""Positions: affine forms of index expressions, and bounds of whole numbers."""

from __future__ import annotations

from collections.abc import Iterable

from dslc.check.frame import Frame
from dslc.check.program import Affine, Apply, Constant, Expr, Index, IndexValue, Read, Reduce, SizeValue
from dslc.check.values import is_int
from dslc.sizes import Polynomial, Size, extreme, floor_div, tidy

#: The least and the greatest value, as far as they are known.
Bounds = tuple[Size | None, Size | None]
MAX_BOUND_TERMS = 20

# ---- intervals -----------------------------------------------------------------------------------


def interval_affine(frame: Frame, terms: Iterable[tuple[Index, Size]], offset: Size) -> Bounds:
    """The least and greatest value of an affine position over the ranges of its indices."""
    low: Size | None = offset
    high: Size | None = offset
    facts = frame.facts
    for index, coefficient in terms:
        if index.size is None:
            return None, None
        reach = tidy(coefficient * (index.size - 1))
        if facts.nonnegative(coefficient):
            high = None if high is None else tidy(high + reach)
        elif facts.nonnegative(tidy(-coefficient)):
            low = None if low is None else tidy(low + reach)
        else:
            return None, None
    return low, high


def interval(frame: Frame, e: Expr, known: dict[int, Bounds] | None = None) -> Bounds:
    """Bounds of a whole-number expression, as far as they are known; `known` are those of its parts so far."""
    known = {} if known is None else known
    if id(e) not in known:  # a value may stand in many places of an expression
        frame.checker.step(frame.checker.place)
        low, high = _interval(frame, e, known)
        known[id(e)] = _simple(low), _simple(high)
    return known[id(e)]


def _simple(bound: Size | None) -> Size | None:
    """A bound of many terms proves nothing, and products of such bounds grow without end."""
    return None if isinstance(bound, Polynomial) and len(bound.terms) > MAX_BOUND_TERMS else bound


def _interval(frame: Frame, e: Expr, known: dict[int, Bounds]) -> Bounds:
    if isinstance(e, Constant) and isinstance(e.value, int):
        return int(e.value), int(e.value)
    if isinstance(e, SizeValue) and is_int(e.dtype):
        return e.size, e.size
    if isinstance(e, IndexValue):
        return 0, None if e.index.size is None else tidy(e.index.size - 1)
    if isinstance(e, Read):
        if e.tensor.below is not None and (e.outside is None or _inside(frame, e.outside, e.tensor.below, known)):
            return 0, tidy(e.tensor.below - 1)
        return None, None
    if isinstance(e, Reduce) and e.op in ("max", "min"):
        return interval(frame, e.body, known)
    if isinstance(e, Reduce) and e.op in ("argmax", "argmin"):
        size: Size = 1
        for index in e.indices:
            if index.size is None:
                return 0, None
            size = tidy(size * index.size)
        return 0, tidy(size - 1)
    if isinstance(e, Apply) and is_int(e.dtype):
        return _interval_apply(frame, e, known)
    return None, None


def value_bound(frame: Frame, e: Expr) -> Size | None:
    """The bound of a whole number that is known to be below it, and not negative."""
    if not is_int(e.dtype):
        return None
    low, high = interval(frame, e)
    if low is None or high is None or not frame.facts.nonnegative(low):
        return None
    return frame.facts.normal(tidy(high + 1))


def _inside(frame: Frame, e: Expr, below: Size, known: dict[int, Bounds]) -> bool:
    low, high = interval(frame, e, known)
    facts = frame.facts
    return low is not None and high is not None and facts.nonnegative(low) and facts.nonnegative(tidy(below - 1 - high))


def _interval_apply(frame: Frame, e: Apply, known: dict[int, Bounds]) -> Bounds:
    args = [interval(frame, a, known) for a in e.args]
    facts = frame.facts
    if e.op in ("i32", "i64", "stop_grad"):
        return args[0]
    if e.op == "select":
        return _union(frame, args[1], args[2])
    if e.op == "neg":
        low, high = args[0]
        return (None if high is None else tidy(-high)), (None if low is None else tidy(-low))
    if e.op == "+":
        (a, b), (c, d) = args
        return (None if a is None or c is None else tidy(a + c)), (None if b is None or d is None else tidy(b + d))
    if e.op == "-":
        (a, b), (c, d) = args
        return (None if a is None or d is None else tidy(a - d)), (None if b is None or c is None else tidy(b - c))
    if e.op == "*":
        (a, b), (c, d) = args
        if all(x is not None and facts.nonnegative(x) for x in (a, c)):
            assert a is not None and c is not None
            return tidy(a * c), (None if b is None or d is None else tidy(b * d))
        return None, None
    divisor = args[1][0] if len(args) == 2 and args[1][0] is not None and args[1][0] == args[1][1] else None
    if e.op == "%" and divisor is not None and facts.positive(divisor):
        return 0, tidy(divisor - 1)
    if e.op == "//" and divisor is not None and facts.positive(divisor):
        a, b = args[0]
        return (None if a is None else floor_div(a, divisor)), (None if b is None else floor_div(b, divisor))
    if e.op == "clip":
        return args[1][0], args[2][1]
    if e.op in ("min", "max"):
        (a, b), (c, d) = args
        low, high = (_extreme(frame, e.op, x, y) for x, y in ((a, c), (b, d)))
        either = [x for x in ((b, d) if e.op == "min" else (a, c)) if x is not None]
        if len(either) == 1:  # one of them bounds the result by itself
            return (low, either[0]) if e.op == "min" else (either[0], high)
        return low, high
    return None, None


def _extreme(frame: Frame, op: str, a: Size | None, b: Size | None) -> Size | None:
    """The smaller or larger of two bounds."""
    if a is None or b is None:
        return None
    if frame.facts.nonnegative(tidy(b - a)):
        return a if op == "min" else b
    if frame.facts.nonnegative(tidy(a - b)):
        return b if op == "min" else a
    return tidy(extreme(op, (a, b)))


def _union(frame: Frame, x: Bounds, y: Bounds) -> Bounds:
    def pick(a: Size | None, b: Size | None, smaller: bool) -> Size | None:
        if a is None or b is None:
            return None
        first, second = (b, a) if smaller else (a, b)
        if frame.facts.nonnegative(tidy(first - second)):
            return a
        return b if frame.facts.nonnegative(tidy(second - first)) else None

    return pick(x[0], y[0], True), pick(x[1], y[1], False)


def largest(frame: Frame, bounds: Iterable[Size]) -> Size | None:
    """The largest of some bounds, where one is known to be it."""
    found: Bounds | None = None
    for bound in bounds:
        found = (bound, bound) if found is None else _union(frame, found, (bound, bound))
    return None if found is None else found[1]


# ---- from expressions to positions ---------------------------------------------------------------


def affine(e: Expr, known: dict[int, Affine | None] | None = None) -> Affine | None:
    """`offset + sum of coefficient * index` when the expression is that, else None; `known` are its parts so far."""
    known = {} if known is None else known
    if id(e) not in known:  # a value may stand in many places of an expression
        known[id(e)] = _affine(e, known)
    return known[id(e)]


def _affine(e: Expr, known: dict[int, Affine | None]) -> Affine | None:
    if isinstance(e, Constant) and isinstance(e.value, int) and not isinstance(e.value, bool):
        return Affine((), e.value)
    if isinstance(e, SizeValue):
        return Affine((), e.size)
    if isinstance(e, IndexValue):
        return Affine(((e.index, 1),), 0)
    if not isinstance(e, Apply) or e.op not in ("+", "-", "*", "neg"):
        return None
    parts = [affine(a, known) for a in e.args]
    if any(p is None for p in parts):
        return None
    forms = [p for p in parts if p is not None]
    if e.op == "neg":
        return _scaled(forms[0], -1)
    if e.op == "*":
        if not forms[0].terms:
            return _scaled(forms[1], forms[0].offset)
        return _scaled(forms[0], forms[1].offset) if not forms[1].terms else None
    if e.op == "-":
        return difference(forms[0], forms[1])
    return difference(forms[0], _scaled(forms[1], -1))


def difference(a: Affine, b: Affine, less: Size = 0) -> Affine:
    """a - b, and a number less."""
    terms: dict[Index, Size] = dict(a.terms)
    for index, coefficient in b.terms:
        terms[index] = tidy(terms.get(index, 0) - coefficient)
    return Affine(tuple((i, c) for i, c in terms.items() if c != 0), tidy(a.offset - b.offset - less))


def _scaled(a: Affine, factor: Size) -> Affine:
    return Affine(tuple((i, tidy(c * factor)) for i, c in a.terms), tidy(a.offset * factor))
