"""What is added at positions goes into the array that it is added to.

d = zeros; d[label] -= c; y = d + x   is   y = x; y[label] -= c
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.passes.transform import Outputs, Transform, everything


def use_onto(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same program with scatters onto the rest of a sum, where nothing else reads them."""
    nodes = everything(outputs)
    reads = (s for node in nodes for body in ir.bodies(node) for s in ir.scalars(body) if isinstance(s, ir.Read))
    uses = Counter(s.tensor for s in reads)
    for node in nodes:
        whole = (node.starts, node.carries, node.results) if isinstance(node, ir.Scan) else ()
        uses.update(2 * [x for part in whole for x in part])
    uses.update(2 * [*outputs.values()])
    return _Onto({x for x, count in uses.items() if count == 1}).outputs(outputs)


class _Onto(Transform):
    def __init__(self, once: set[ir.Tensor]) -> None:
        super().__init__()
        #: nodes of the program that was given which one formula reads once
        self.once = once

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or node.op is not None:
            return node
        terms: list[ir.Scalar] = [node.body]
        while isinstance(terms[0], ir.Op) and terms[0].name == "+":
            terms[:1] = terms[0].args
        own = [s for s in terms if self.is_whole_scatter(s, node)]
        rest = [s for s in terms if s not in own]
        scatters = [s.tensor for s in own if isinstance(s, ir.Read) and isinstance(s.tensor, ir.Scatter)]
        base = self.array(rest, node) if rest else None
        if not scatters or (base is None if rest else len(scatters) < 2):
            return node
        for scatter in scatters:
            base = ir.intern(replace(scatter, base=base, name=node.name, span=node.span))
        assert base is not None
        return base

    def array(self, terms: list[ir.Scalar], node: ir.Comp) -> ir.Tensor | None:
        """A sum as an array of its own, that nothing else reads."""
        body = terms[0]
        for s in terms[1:]:
            body = ir.op("+", (body, s), node.dtype)
        if isinstance(body, ir.Op):
            return ir.comp(node.shape, body, None, (), "", node.span, node.dtype)
        if isinstance(body, ir.Read) and isinstance(body.tensor, ir.Comp) and body.tensor.op and not body.tensor.name:
            whole = body.places == tuple(map(ir.plain, range(len(node.shape)))) and body.tensor.shape == node.shape
            return body.tensor if whole and self.origin.get(body.tensor, body.tensor) in self.once else None
        return None

    def is_whole_scatter(self, s: ir.Scalar, node: ir.Comp) -> bool:
        if not isinstance(s, ir.Read) or not isinstance(s.tensor, ir.Scatter):
            return False
        scatter, places = s.tensor, tuple(map(ir.plain, range(len(node.shape))))
        fresh = scatter.op == "+" and scatter.base is None and self.origin.get(scatter, scatter) in self.once
        same = scatter.shape == node.shape and scatter.dtype == node.dtype and s.places == places
        return fresh and same and s.outside is None
