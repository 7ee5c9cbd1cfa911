"""Products as people write them: a number, with the sign, stands in front; a factor there three times is a power.

-(0.5 x y) = -0.5 x y        a / (s s 2 s) = a / (2 s^3)        x 2 = 2 x
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.passes.products import Product, join, split
from dslc.passes.transform import Outputs, Transform, with_body


def use_powers(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same program with products in that form."""
    return _Powers().outputs(outputs)


class _Powers(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        match node:
            case ir.Comp():
                return with_body(node, _rewritten(node.body))
            case ir.Scatter():
                return ir.intern(replace(node, body=_rewritten(node.body)))
        return node


def _rewritten(body: ir.Scalar) -> ir.Scalar:
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(body):
        new = ir.rebuild(s, lambda x: done[x])
        done[s] = _product(new) if isinstance(new, ir.Op) and new.name in ("*", "/", "neg") else new
    return done[body]


def _product(s: ir.Op) -> ir.Scalar:
    parts = split(s, sink=False)
    counts = Counter((*parts.above, *parts.below))
    first = parts.above[0]
    signed = parts.negative and isinstance(first, ir.Const) and len(parts.above) > 1
    late = any(isinstance(x, ir.Const) for x in (*parts.above[1:], *parts.below[1:]))
    if not is_float(s.dtype) or not (signed or late or max(counts.values()) > 2):
        return s
    above, below = _powers(parts.above, s.dtype), _powers(parts.below, s.dtype)
    if signed and isinstance(above[0], ir.Const):
        above[0] = ir.const(-above[0].value, above[0].dtype)
    return join(Product(tuple(above), tuple(below), parts.negative and not signed), s.dtype)


def _powers(factors: tuple[ir.Scalar, ...], dtype: str) -> list[ir.Scalar]:
    """Numbers first, then the others, those that are there more than twice as powers."""
    made: list[ir.Scalar] = []
    for x, n in Counter(factors).items():
        made += [ir.op("^", (x, ir.const(float(n), dtype)), dtype)] if n > 2 else [x] * n
    return sorted(made, key=lambda x: not isinstance(x, ir.Const))
