"""Shares of a sum of exponentials without a guard that says nothing: where the sum is 0, so is each of its terms.

S = sum[k](exp(x[k])):   (0 if S == 0 else c / (1 if S == 0 else S)) exp(x[i])  =  c / (1 if S == 0 else S) exp(x[i])

for a finite number c, which 0 wipes out.
"""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.algebra import is_zero
from dslc.passes.finite import is_finite
from dslc.passes.products import Product, join, split
from dslc.passes.transform import Outputs, Transform, with_body
from dslc.stabilise.membership import is_at


def use_shares(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same program with such products as plain quotients."""
    return _Shares().outputs(outputs)


class _Shares(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp):
            return node
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            new = ir.rebuild(s, lambda x: done[x])
            done[s] = _product(new) if isinstance(new, ir.Op) and new.name == "*" else new
        return with_body(node, done[node.body])


def _product(s: ir.Op) -> ir.Scalar:
    parts = split(s, sink=False)
    above = list(parts.above)
    for k, x in enumerate(above):
        match x:
            case ir.Op("select", (ir.Op("==", (ir.Read() as total, zero)) as none, nothing, share)) if (
                is_zero(zero) and is_zero(nothing) and any(_is_term(y, total) for y in above)
            ):
                if is_finite(_where(none, share), data=True):
                    above[k] = share
    return s if above == list(parts.above) else join(Product(tuple(above), parts.below, parts.negative), s.dtype)


def _is_term(s: ir.Scalar, total: ir.Read) -> bool:
    """Is it a term of a sum of exponentials?"""
    node = total.tensor
    if not isinstance(node, ir.Comp) or node.op != "sum" or not isinstance(node.body, ir.Op) or node.body.name != "exp":
        return False
    return isinstance(s, ir.Op) and s.name == "exp" and is_at(node.body.args[0], s.args[0], total, node)


def _where(condition: ir.Scalar, s: ir.Scalar) -> ir.Scalar:
    """What a formula is where a condition holds."""
    done: dict[ir.Scalar, ir.Scalar] = {}
    for x in ir.scalars(s):
        new = ir.rebuild(x, lambda below: done[below])
        chosen = isinstance(new, ir.Op) and new.name == "select" and new.args[0] is condition
        done[x] = new.args[1] if chosen and isinstance(new, ir.Op) else new
    return done[s]
