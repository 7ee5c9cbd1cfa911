"""Sums that no later step needs leave a scan: they are made of stacked values for all steps at once, after the loop.

scan t: d[n, t] = a[n, t] * d[n, t+1] + g[n, t];  s[t] = sum[n](d[n, t] * x[n, t])   gives
scan t: d[n, t] = a[n, t] * d[n, t+1] + g[n, t];  and then   s[t] = sum[n](d[n, t] * x[n, t])   for all t.
What is left of an elementwise recurrence is then elementwise.
"""

from __future__ import annotations

from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep
from dslc.passes.transform import Outputs, Transform


class Sunk(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.number < len(node.of.results):
            return after(node.of, node.of.results[node.number], node)
        return node


def after(scan: ir.Scan, result: ir.Tensor, part: ir.Part) -> ir.Tensor:
    """A stacked result, computed after the scan where it is a sum of what the scan stacks or carries."""
    if not isinstance(result, ir.Comp) or result.op is None or scan.kind == "layers" or result in scan.carries:
        return part
    inside = set(ir.inside(scan)[0])
    number = next((x for x in inside if isinstance(x, ir.Step) and x.kind == "number"), None)
    needs = [a for a in ir.arguments(result) if a in inside and a is not number]
    missing = tuple(a for a in scan.carries if a in needs and a not in scan.results)
    # a second scan of the same recurrence: the two become one
    scan = ir.intern(replace(scan, results=(*scan.results, *missing)))
    stacked = {x: k for k, x in enumerate(scan.results) if x is not result}
    if any(a not in stacked for a in needs):
        return part

    def look(tensor: ir.Tensor) -> tuple[ir.Tensor, tuple[ir.Place, ...]] | None:
        if tensor not in inside or tensor is number:
            return None
        shape = (scan.length, *tensor.shape)
        stack = ir.intern(ir.Part(scan, stacked[tensor], tensor.dtype, shape, tensor.name))
        return stack, (ir.plain(0),)

    def place(x: ir.Place) -> ir.Place:
        own = isinstance(x, ir.At) and x.step is number
        return ir.affine(((0, 1),), x.offset) if own and isinstance(x, ir.At) else x

    count = len(result.shape) + len(result.reduced)
    change = Change({v: keep(v + 1) for v in range(count)}, look, place, lambda x: ir.var(0) if x is number else None)
    body = change.scalar(result.body)
    shape = (scan.length, *result.shape)
    return ir.comp(shape, body, result.op, result.reduced, result.name, result.span, result.dtype)


def sunk(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Sunk().outputs(outputs)
