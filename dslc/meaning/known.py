"""What a formula comes to where parts of it are known: a condition that fails, a value that is 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dslc.ir import nodes as ir

Value = float | bool | None

INF = float("inf")


def value_where_not(root: ir.Scalar, test: ir.Scalar) -> Value:
    """The value of a scalar where `test` is false, if it is the same everywhere there; None if that is not known.

    >>> test = ir.op("<=", (ir.var(1), ir.var(0)), "bool")
    >>> shown = ir.op("select", (test, ir.var(0), ir.const(0.0, "float")), "float")
    >>> value_where_not(ir.op("*", (shown, ir.var(1)), "float"), test)
    0.0
    """
    return value_given(root, lambda s: False if s is test else None)


def value_given(root: ir.Scalar, known: Callable[[ir.Scalar], Value]) -> Value:
    """The value of a scalar, if it follows from the values of scalars in it that are `known`."""
    done: dict[ir.Scalar, Value] = {}
    for s in ir.scalars(root):
        given = known(s)
        done[s] = _value(s, [done[x] for x in ir.operands(s)]) if given is None else given
    return done[root]


def _value(s: ir.Scalar, args: list[Value]) -> Value:
    if isinstance(s, ir.Const):
        return s.value if isinstance(s.value, bool) else float(s.value)
    if not isinstance(s, ir.Op):
        return None
    if s.name in RULES:
        return RULES[s.name](args)
    if None in args:
        return None
    try:
        from dslc.meaning.interpret import apply  # numpy, which few specs need here

        value = apply(s.name, list(args), s.dtype).item()
    except (KeyError, TypeError, ValueError):
        return None
    return value if isinstance(value, bool) else float(value)


def _select(a: Sequence[Value]) -> Value:
    if a[0] is None:
        return a[1] if a[1] == a[2] else None
    return a[1] if a[0] else a[2]


def _product(a: Sequence[Value]) -> Value:
    if any(x == 0 for x in a):  # the other factors are finite, or the formula has no value there
        return 0.0
    if any(x is None for x in a):
        return None
    result = 1.0
    for x in a:
        result *= float(x)  # type: ignore[arg-type]
    return result


def _sum(a: Sequence[Value]) -> Value:
    if -INF in a:
        return -INF
    return None if any(x is None for x in a) else float(sum(float(x) for x in a if x is not None))


def _exp(a: Sequence[Value]) -> Value:
    """What masks come to, without waiting for numpy."""
    try:
        return None if a[0] is None else math.exp(a[0])
    except OverflowError:
        return INF


#: operations whose value may be known though an argument is not, or is known without numpy
RULES: dict[str, Callable[[list[Value]], Value]] = {
    "select": _select,
    "*": _product,
    "/": lambda a: 0.0 if a[0] == 0 else None if None in a else float(a[0]) / float(a[1]) if a[1] else None,  # type: ignore[arg-type]
    "+": _sum,
    "-": lambda a: -INF if a[0] == -INF else None if None in a else float(a[0]) - float(a[1]),  # type: ignore[arg-type]
    "and": lambda a: False if False in a else None if None in a else True,
    "or": lambda a: True if True in a else None if None in a else False,
    "exp": _exp,
    "stop_grad": lambda a: a[0],
    "cast": lambda a: a[0],
}
