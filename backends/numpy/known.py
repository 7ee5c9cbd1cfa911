"""What is known when a module is printed: positions along axes of one entry, and what follows from them.

(d[n] if o == 0 else 0)  gives  d[n]        max[k: 1](x[n, k])  gives  x[n, 0]        1 x  gives  x
(x if c else 0) + (0 if c else y)  gives  x if c else y
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dslc.dtypes import alike, is_float, is_int
from dslc.ir import nodes as ir
from dslc.ir.algebra import is_zero
from dslc.ir.rewrite import Change, Form, keep
from dslc.passes.products import split
from dslc.passes.transform import Outputs, Transform, with_body
from dslc.sizes import Size

#: operations on positions that are known
KNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip


def use_known(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same program in which no formula asks for the position along an axis of one entry."""
    return _Known().outputs(outputs)


def sizes(node: ir.Node) -> tuple[Size, ...]:
    """How far the variables of a formula run."""
    match node:
        case ir.Comp():
            return (*node.shape, *node.reduced)
        case ir.Scatter():
            return node.ranges
    return ()


class _Known(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        found = unreduced(node) if isinstance(node, ir.Comp) else node
        single = {n for n, size in enumerate(sizes(found)) if size == 1}
        match found:
            case ir.Comp():
                return reshaped_once(with_body(found, _known(found.body, single)))
            case ir.Scatter():
                return ir.intern(replace(found, body=_known(found.body, single)))
        return found


def reshaped_once(node: ir.Tensor) -> ir.Tensor:
    """Another shape with axes of one entry beside those of a shape that was given is that shape at once."""
    match node:
        case ir.Comp(op=None, body=ir.Read(tensor=ir.Reshape() as inner, places=places, outside=None)):
            long = [n for n, size in enumerate(node.shape) if size != 1]
            if inner.dtype == node.dtype and tuple(node.shape[n] for n in long) == inner.shape != node.shape:
                if places == tuple(map(ir.plain, long)):
                    return ir.intern(ir.Reshape(inner.of, node.shape, node.dtype, node.name, node.span))
    return node


def unreduced(node: ir.Comp) -> ir.Tensor:
    """A reduction without the axes of one entry: a part, if no other is left. In products, which are matrix products,
    only those go that are windows of one entry."""
    if node.op not in ("sum", "max", "min") or 1 not in node.reduced:
        return node
    kept = len(node.shape)
    gone = {kept + k for k, size in enumerate(node.reduced) if size == 1}
    if len(split(node.body).above) > 1:
        reads = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
        windows = [x.terms for s in reads for x in s.places if isinstance(x, ir.Affine) and len(x.terms) > 1]
        gone &= {n for terms in windows for n, _ in terms}
    left = [kept + k for k in range(len(node.reduced)) if kept + k not in gone]
    if not gone or (not left and len(split(node.body).above) > 1):
        return node
    forms = dict.fromkeys(gone, Form(())) | {n: keep(k) for k, n in enumerate((*range(kept), *left))}
    body, reduced = Change(forms).scalar(node.body), tuple(node.reduced[n - kept] for n in left)
    return ir.comp(node.shape, body, node.op if left else None, reduced, node.name, node.span, node.dtype)


def _known(root: ir.Scalar, single: set[int]) -> ir.Scalar:
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(root):
        new = s if isinstance(s, ir.Rand) else ir.rebuild(s, lambda x: done[x])
        match new:
            case ir.Var(number) if number in single:
                new = ir.const(0, new.dtype)
            case ir.Read():
                places = tuple(_place(x, single) for x in new.places)
                new = ir.intern(ir.Read(new.tensor, places, new.dtype, new.outside))
            case ir.Op():
                new = folded(new)
        done[s] = new
    return done[root]


def _place(place: ir.Place, single: set[int]) -> ir.Place:
    """A place without the terms that are 0; one variable alone stays, as the axis that it is."""
    if not isinstance(place, ir.Affine) or len(place.terms) < 2:
        return place
    terms = tuple((n, c) for n, c in place.terms if n not in single) or place.terms[:1]
    return ir.affine(terms, place.offset, place.mode, place.divisor)


def folded(s: ir.Op) -> ir.Scalar:
    """An operation on what is known as what it gives."""
    match s.name, tuple(_number(x) for x in s.args), s.args:
        case name, (int() as a, int() as b), _ if name in KNOWN:
            return ir.const(KNOWN[name](a, b), s.dtype)
        case "+", (0, None), (_, x):
            return x
        case "+", (None, 0), (x, _):
            return x
        case "*", _, (a, x) if _is(a, 1.0) and alike(x.dtype, s.dtype):
            return x
        case "+", _, (x, a) if _is(a, 0.0) and alike(x.dtype, s.dtype):
            return x
        case "+", _, (a, x) if _is(a, 0.0) and alike(x.dtype, s.dtype):
            return x
        case "+", _, (ir.Op("select", (c, x, y)), ir.Op("select", (also, v, w))) if c is also:
            if is_zero(y) and is_zero(v):
                return ir.op("select", (c, x, w), s.dtype)
            if is_zero(x) and is_zero(w):
                return ir.op("select", (c, v, y), s.dtype)
        case "and", _, (ir.Const(bool() as a), x) | (x, ir.Const(bool() as a)):
            return x if a else ir.const(False, "bool")
        case "or", _, (ir.Const(bool() as a), x) | (x, ir.Const(bool() as a)):
            return ir.const(True, "bool") if a else x
        case "select", _, (ir.Const(bool() as a), x, y):
            chosen = x if a else y
            return chosen if alike(chosen.dtype, s.dtype) else ir.op("cast", (chosen,), s.dtype)
    return s


def _number(s: ir.Scalar) -> int | None:
    """A whole number that is known."""
    match s:
        case ir.Const(int() as value) | ir.SizeOf(int() as value) if is_int(s.dtype):
            return value
    return None


def _is(s: ir.Scalar, number: float) -> bool:
    """Is it this number, as a float?"""
    known = s.args[0] if isinstance(s, ir.Op) and s.name == "cast" else s
    return is_float(s.dtype) and isinstance(known, ir.Const) and known.value == number
