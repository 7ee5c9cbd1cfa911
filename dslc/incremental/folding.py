"""Bodies without comparisons that always hold: at the newest position t, `s <= t` is true of all positions so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dslc.ir import nodes as ir
from dslc.ir.bounds import decided
from dslc.sizes import Size


def folded(root: ir.Scalar, sizes: Sequence[Size]) -> ir.Scalar:
    """A body without the comparisons that always hold or always fail.

    >>> test = ir.op("<=", (ir.var(0), ir.intern(ir.SizeOf(4))), "bool")
    >>> folded(ir.op("select", (test, ir.var(0), ir.const(0, "i64")), "i64"), (5,)) is ir.var(0)
    True
    """
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(root):
        made = ir.rebuild(s, lambda x: done[x])
        truth = decided(made, sizes)
        if truth is not None:
            made = ir.const(truth, "bool")
        elif isinstance(made, ir.Op) and made.name in LOGIC:
            made = LOGIC[made.name](made)
        done[s] = made
    return done[root]


def _truth(s: ir.Scalar) -> bool | None:
    return bool(s.value) if isinstance(s, ir.Const) and s.dtype == "bool" else None


def _joined(neutral: bool) -> Callable[[ir.Op], ir.Scalar]:
    def join(s: ir.Op) -> ir.Scalar:
        if any(_truth(x) is (not neutral) for x in s.args):
            return ir.const(not neutral, "bool")
        rest = tuple(x for x in s.args if _truth(x) is None)
        if not rest:
            return ir.const(neutral, "bool")
        return rest[0] if len(rest) == 1 else ir.op(s.name, rest, "bool")

    return join


def _not(s: ir.Op) -> ir.Scalar:
    truth = _truth(s.args[0])
    return s if truth is None else ir.const(not truth, "bool")


def _select(s: ir.Op) -> ir.Scalar:
    truth = _truth(s.args[0])
    chosen = s if truth is None else s.args[1] if truth else s.args[2]
    return chosen if chosen.dtype == s.dtype else ir.op("cast", (chosen,), s.dtype)


#: operations on truth values that may be known
LOGIC: dict[str, Callable[[ir.Op], ir.Scalar]] = {
    "and": _joined(True),
    "or": _joined(False),
    "not": _not,
    "select": _select,
}
