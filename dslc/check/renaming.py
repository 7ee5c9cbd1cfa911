"""Expressions with other indices, and the walk over their operands."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.check.program import (
    Affine,
    Apply,
    Constant,
    Data,
    Draw,
    Expr,
    Index,
    IndexValue,
    Read,
    Reduce,
    SizeValue,
    Tensor,
)
from dslc.check.values import (
    Val,
)


def replace_indices(val: Val, table: Mapping[Index, Index]) -> Val:
    """The same value with some indices renamed."""
    if val.expr is None:
        return val
    free = {table.get(i, i): None for i in val.free}
    return Val(rename(val.expr, table), tuple(table.get(a, a) for a in val.axes), free)


def rename(e: Expr, table: Mapping[Index, Index], values: Mapping[Tensor, Expr] | None = None) -> Expr:
    """Replace indices in an expression, and reads of values without axes (iteratively, sharing what is shared)."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        value = values.get(node.tensor) if values and isinstance(node, Read) else None
        inner = operands(node) if value is None else [value]
        if not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in inner)
            continue
        done[id(node)] = _renamed(node, table, done) if value is None else done[id(value)]
    return done[id(e)]


def operands(e: Expr) -> list[Expr]:
    if isinstance(e, Apply | Draw):
        return list(e.args)
    if isinstance(e, Reduce):
        return [e.body]
    if isinstance(e, Read):
        found: list[Expr] = [p.value for p in e.positions if isinstance(p, Data)]
        return found + ([e.outside] if e.outside is not None else [])
    return []


def _renamed(e: Expr, table: Mapping[Index, Index], done: Mapping[int, Expr]) -> Expr:
    match e:
        case Constant() | SizeValue():
            return e
        case IndexValue():
            return IndexValue(table.get(e.index, e.index))
        case Apply():
            return Apply(e.op, tuple(done[id(a)] for a in e.args), e.dtype, e.span)
        case Reduce():
            return Reduce(e.op, e.indices, done[id(e.body)], e.dtype, e.span)
        case Draw():
            args = tuple(done[id(a)] for a in e.args)
            return Draw(e.op, tuple(table.get(i, i) for i in e.indices), args, e.dtype, e.site, e.span)
        case Read():
            positions = tuple(
                Data(done[id(p.value)], p.mode)
                if isinstance(p, Data)
                else Affine(tuple((table.get(i, i), c) for i, c in p.terms), p.offset, p.mode)
                for p in e.positions
            )
            outside = None if e.outside is None else done[id(e.outside)]
            return Read(e.tensor, positions, e.dtype, outside, e.span)
