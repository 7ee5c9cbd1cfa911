"""Whether relu lets a value through can be read off its result.

    y[i] = relu(x[i]);   d[i] = g[i] if x[i] > 0 else 0   gives   d[i] = g[i] if y[i] > 0 else 0

So the gradient of relu needs its result alone, which the next layer keeps anyway.
"""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.passes.transform import Outputs, Transform, everything, with_body


def read_signs(outputs: Outputs) -> dict[str, ir.Tensor]:
    results: dict[ir.Node, ir.Comp] = {}
    for node in everything(outputs):
        source = rectified(node)
        if source is not None:
            assert isinstance(node, ir.Comp)
            results.setdefault(source, node)
    return _Signs(results).outputs(outputs) if results else dict(outputs)


def rectified(node: ir.Node) -> ir.Tensor | None:
    """The computed tensor whose relu a tensor is, element by element."""
    match node:
        case ir.Comp(op=None, body=ir.Op("relu", (ir.Read() as read,))):
            whole = tuple(ir.plain(i) for i in range(len(node.shape)))
            if read.places == whole and read.tensor.shape == node.shape and not isinstance(read.tensor, ir.Input):
                return read.tensor
    return None


class _Signs(Transform):
    def __init__(self, results: dict[ir.Node, ir.Comp]) -> None:
        super().__init__()
        self.results = results

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or not any(self.result(s) for s in ir.scalars(node.body)):
            return node
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            done[s] = self.result(s) or ir.rebuild(s, lambda x: done[x])
        return with_body(node, done[node.body])

    def result(self, s: ir.Scalar) -> ir.Scalar | None:
        """The test of a value as a test of its relu, where both belong to the same part of the program."""
        match s:
            case ir.Op(">", (ir.Read(outside=None) as read, ir.Const(value=0))):
                old = self.results.get(self.origin.get(read.tensor, read.tensor))
                result = self.done.get(old) if old is not None else None
                if isinstance(result, ir.Comp):
                    return ir.op(">", (ir.read(result, read.places), s.args[1]), s.dtype)
        return None
