"""Values that are only another way of reading a value: who reads them reads that value.

v[n, h, s, d] = u[n, s, h, d];   o[n, t] = v[n, t, 0, 0]   gives   o[n, t] = u[n, 0, t, 0]
"""

from __future__ import annotations

from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import seen_at
from dslc.passes.transform import Outputs, Transform, with_body


def read_through(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Views(set(outputs.values())).outputs(outputs)


class _Views(Transform):
    def __init__(self, roots: set[ir.Tensor]) -> None:
        super().__init__()
        self.roots = roots

    def visit(self, node: ir.Node) -> ir.Node:
        match node:
            case ir.Comp():
                return with_body(node, self.body(node.body))
            case ir.Scatter():
                return ir.intern(replace(node, body=self.body(node.body)))
        return node

    def body(self, root: ir.Scalar) -> ir.Scalar:
        if not any(isinstance(s, ir.Read) and (is_view(s.tensor) or is_number(s.tensor)) for s in ir.scalars(root)):
            return root
        return ir.with_reads(root, self.read)

    def read(self, s: ir.Read) -> ir.Scalar:
        """The read of a view as a read of what it shows."""
        view = s.tensor
        if is_number(view) and s.outside is None:
            assert isinstance(view, ir.Comp) and isinstance(view.body, ir.Const)
            return ir.const(view.body.value, view.dtype)
        if not is_view(view) or s.outside is not None:
            return s
        assert isinstance(view, ir.Comp) and isinstance(view.body, ir.Read)
        return seen_at(s.places, view.body) or s


def is_number(node: ir.Node) -> bool:
    return isinstance(node, ir.Comp) and node.op is None and isinstance(node.body, ir.Const)


def is_view(node: ir.Node) -> bool:
    """A comprehension that only reads another tensor, at places that are no data; parameters of layers stay."""
    return (
        isinstance(node, ir.Comp)
        and node.op is None
        and isinstance(node.body, ir.Read)
        and node.dtype == node.body.dtype
        and node.body.outside is None
        and not ir.slice_of_input(node)
        and all(isinstance(x, ir.At) or (isinstance(x, ir.Affine) and x.mode == "inside") for x in node.body.places)
    )
