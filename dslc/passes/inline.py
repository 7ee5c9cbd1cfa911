"""Values without a name that are used once, element by element, become part of the formula that uses them."""

from __future__ import annotations

from collections import Counter

from dslc.ir import nodes as ir
from dslc.ir.rewrite import seen_at
from dslc.passes.products import split
from dslc.passes.transform import Outputs, Transform, readers, with_body


def inline(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Inline(readers(outputs)).outputs(outputs)


class _Inline(Transform):
    def __init__(self, uses: Counter[ir.Node]):
        super().__init__()
        #: of nodes before the change
        self.uses = uses

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or not any(self.inlined(s) for s in ir.scalars(node.body)):
            return node
        if node.op is not None and len(split(node.body).above) > 1:
            return node  # a factor of a matrix product is an array of its own
        return with_body(node, ir.with_reads(node.body, lambda s: self.read(s) if self.inlined(s) else s))

    def inlined(self, s: ir.Scalar) -> bool:
        if not isinstance(s, ir.Read) or s.outside is not None or not isinstance(s.tensor, ir.Comp):
            return False
        node = s.tensor
        if node.op is not None or node.name or ir.slice_of_input(node) or node.dtype != node.body.dtype:
            return False
        return self.uses[self.origin.get(node, node)] == 1

    def read(self, s: ir.Read) -> ir.Scalar:
        assert isinstance(s.tensor, ir.Comp)
        return seen_at(s.places, s.tensor.body) or s
