"""Which values are kept in 16 bits, in a module whose parameters are f16 or bf16.

Arithmetic and sums are in float32: a value rounds where it is put into memory. What a later step may not lose stays
in float32: numbers without axes, states, the gradients of parameters, and reductions that are no contraction (the
statistics of a norm, the maximum and the sum of a softmax).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.passes.sides import is_contraction
from dslc.passes.transform import Outputs, Transform

HALVES = ("f16", "bf16")
#: floats that are what the module says
OPEN = ("float", "f32")


def narrow_input(node: ir.Input, half: str) -> ir.Input:
    """An argument as it is kept: parameters and tensors in 16 bits, states and single numbers as they are."""
    if node.dtype in OPEN and (node.role == "param" or (node.role == "input" and node.shape)):
        return ir.intern(replace(node, dtype=half))
    return node


class Narrowed(Transform):
    """A graph whose nodes have the dtypes that they are kept in."""

    def __init__(self, half: str, roots: Collection[ir.Node], exact: Collection[ir.Node]) -> None:
        super().__init__()
        self.half = half
        self.roots = {sourced(x) for x in roots}
        self.exact = {sourced(x) for x in exact}
        self.exact_steps = self.carried_exactly(roots)

    def carried_exactly(self, roots: Collection[ir.Node]) -> set[tuple[int, int]]:
        """What scans carry in float32, as it is also a result that stays in float32; it starts in float32, too."""
        found: set[tuple[int, int]] = set()
        for node in reversed(ir.every_node(roots)):
            if isinstance(node, ir.Scan):
                for place, (start, carry) in enumerate(zip(node.starts, node.carries, strict=True)):
                    if sourced(carry) in self.exact:
                        found.add((node.number, place))
                        self.exact.add(sourced(start))
        return found

    def _one(self, node: ir.Node) -> ir.Node:
        new = super()._one(node)
        match new:
            case ir.Input():
                return narrow_input(new, self.half)
            case ir.Comp() if self.narrows(node):
                return ir.intern(replace(new, dtype=self.half))
            case ir.Step() if new.kind == "carry" and new.dtype in OPEN and not self.carries_exactly(node):
                return ir.intern(replace(new, dtype=self.half))
            case ir.Along():
                return ir.intern(replace(new, dtypes=tuple(self.half if d in OPEN else d for d in new.dtypes)))
            case ir.Part() if isinstance(new.of, ir.Scan):
                values = (*new.of.results, *new.of.carries)
                return ir.intern(replace(new, dtype=values[new.number].dtype))
            case ir.Part() if isinstance(new.of, ir.Along | ir.External):
                return ir.intern(replace(new, dtype=new.of.dtypes[new.number]))
            case ir.Reshape():
                return ir.intern(replace(new, dtype=new.of.dtype))
        return new

    def carries_exactly(self, node: ir.Node) -> bool:
        return isinstance(node, ir.Step) and (node.scan, node.place) in self.exact_steps

    def narrows(self, node: ir.Node) -> bool:
        if not isinstance(node, ir.Comp) or node.dtype not in OPEN or not node.shape or node in self.exact:
            return False
        return node.op is None or is_contraction(node) or node in self.roots


def sourced(node: ir.Node) -> ir.Node:
    """The node whose storage a result is: a view has that of its tensor, a part of a scan that of one step."""
    while True:
        if isinstance(node, ir.Reshape):
            node = node.of
        elif isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            node = (*node.of.results, *node.of.carries)[node.number]
        else:
            return node


def narrowed(outputs: Outputs, half: str, exact: Collection[str] = ()) -> dict[str, ir.Tensor]:
    """The results with the dtypes that all nodes are kept in; those called `exact` stay in float32."""
    return Narrowed(half, outputs.values(), [outputs[k] for k in exact]).outputs(outputs)
