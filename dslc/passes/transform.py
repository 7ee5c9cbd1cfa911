"""What the passes have in common: a program is rebuilt from its inputs on, also inside scans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Substitute

#: a program: named results
Outputs = Mapping[str, ir.Tensor]


class Transform(Substitute):
    """Every node on its changed arguments, and then changed by `visit`."""

    def __init__(self) -> None:
        super().__init__({}, everywhere=True)

    def outputs(self, outputs: Outputs) -> dict[str, ir.Tensor]:
        return {name: self.tensor(x) for name, x in outputs.items()}

    def _one(self, node: ir.Node) -> ir.Node:
        return self.visit(super()._one(node))

    def visit(self, node: ir.Node) -> ir.Node:
        return node


def everything(outputs: Outputs) -> Iterator[ir.Node]:
    """All nodes of a program, arguments first, those inside scans too, each once."""
    seen: set[ir.Node] = set()
    for node in _all(tuple(outputs.values())):
        if node not in seen:
            seen.add(node)
            yield node


def _all(roots: tuple[ir.Node, ...]) -> Iterator[ir.Node]:
    for node in ir.schedule(roots):
        if isinstance(node, ir.Scan):
            yield from _all((*node.carries, *node.results))
        yield node
