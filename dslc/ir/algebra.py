"""Scalars put together, with what is known about 0, 1 and selects used at once."""

from __future__ import annotations

from collections.abc import Callable

from dslc.dtypes import alike, promote
from dslc.ir import nodes as ir
from dslc.ir.rewrite import zero


def is_zero(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == 0


def is_one(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == 1 and not isinstance(s.value, bool)


def number(x: float) -> ir.Const:
    return ir.const(float(x), "float")


def add(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    if is_zero(a):
        return b
    return a if is_zero(b) else ir.op("+", (a, b), _join(a, b))


def sub(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    return a if is_zero(b) else ir.op("-", (a, b), _join(a, b))


def mul(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """a b. It sinks into a select with a branch 0, so that what is not taken stays 0 whatever b is."""
    if is_zero(a) or is_one(b):
        return a
    if is_zero(b) or is_one(a):
        return b
    return _sink(a, lambda x: mul(x, b)) or ir.op("*", (a, b), _join(a, b))


def div(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """a / b, sunk like a product."""
    if is_zero(a) or is_one(b):
        return a
    dtype = _join(a, b)
    return _sink(a, lambda x: div(x, b)) or ir.op("/", (a, b), "float" if dtype in ("i32", "i64") else dtype)


def neg(a: ir.Scalar) -> ir.Scalar:
    return a if is_zero(a) else _sink(a, neg) or ir.op("neg", (a,), a.dtype)


def _sink(a: ir.Scalar, f: Callable[[ir.Scalar], ir.Scalar]) -> ir.Scalar | None:
    """`f(x) if c else 0` for `x if c else 0`, and the other way round; None for all else."""
    if not isinstance(a, ir.Op) or a.name != "select":
        return None
    condition, x, y = a.args
    if is_zero(y):
        return choose(condition, f(x), y)
    return choose(condition, x, f(y)) if is_zero(x) else None


def choose(condition: ir.Scalar, a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    return a if a is b else ir.op("select", (condition, a, b), _join(a, b))


def where(condition: ir.Scalar, a: ir.Scalar) -> ir.Scalar:
    """a where the condition holds, else 0."""
    return choose(condition, a, zero(a.dtype))


def call(name: str, *args: ir.Scalar) -> ir.Scalar:
    return ir.op(name, args, args[0].dtype if args[0].dtype not in ("i32", "i64") else "float")


def cast(a: ir.Scalar, dtype: str) -> ir.Scalar:
    return a if alike(a.dtype, dtype) else _sink(a, lambda x: cast(x, dtype)) or ir.op("cast", (a,), dtype)


def compare(name: str, a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    return ir.op(name, (a, b), "bool")


def _join(a: ir.Scalar, b: ir.Scalar) -> str:
    if isinstance(a, ir.Const) and b.dtype not in ("i32", "i64"):
        return b.dtype
    if isinstance(b, ir.Const) and a.dtype not in ("i32", "i64"):
        return a.dtype
    return promote(a.dtype, b.dtype)
