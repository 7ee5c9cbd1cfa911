"""What the passes have in common: a program is rebuilt from its inputs on, also inside scans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from dslc.ir import nodes as ir
from dslc.ir.index_names import same_axes
from dslc.ir.rewrite import Substitute

#: a program: named results
Outputs = Mapping[str, ir.Tensor]
Pass = Callable[[Outputs], dict[str, ir.Tensor]]
#: a program after each pass, by the name of the pass
Stages = list[tuple[str, dict[str, ir.Tensor]]]


def run_passes(outputs: Outputs, passes: Mapping[str, Pass], stages: Stages) -> dict[str, ir.Tensor]:
    """The program after all passes; `stages` gets that after each."""
    found = dict(outputs)
    for name, each in passes.items():
        found = each(found)
        stages.append((name, found))
    return found


class Transform(Substitute):
    """Every node on its changed arguments, and then changed by `visit`."""

    def __init__(self) -> None:
        super().__init__({}, everywhere=True)
        #: the node that a changed node comes from
        self.origin: dict[ir.Node, ir.Node] = {}

    def outputs(self, outputs: Outputs) -> dict[str, ir.Tensor]:
        return {name: self.tensor(x) for name, x in outputs.items()}

    def within(self, tensors: Sequence[ir.Tensor], fixed: Iterable[ir.Node] = ()) -> list[ir.Tensor]:
        """Tensors of a part of a program; `fixed` nodes stay as they are."""
        for node in fixed:
            self.done[node] = node
            self.note(node)
        return [self.tensor(x) for x in tensors]

    def note(self, node: ir.Node) -> None:
        """Take notice of a node that is not changed."""

    def _one(self, node: ir.Node) -> ir.Node:
        made = super()._one(node)
        self.origin.setdefault(made, node)
        new = self.visit(made)
        if isinstance(node, ir.Comp) and node.name and isinstance(new, ir.Comp) and not new.name:
            ir.rename(new, node.name)  # a part that is all that is left of a value
        self.origin.setdefault(new, node)
        if isinstance(new, ir.Comp) and isinstance(node, ir.Comp) and new.shape == node.shape:
            same_axes(new, node)
        return new

    def visit(self, node: ir.Node) -> ir.Node:
        return node


def with_body(node: ir.Comp, body: ir.Scalar) -> ir.Tensor:
    """The same comprehension of another formula."""
    return node if body is node.body else ir.comp(
        node.shape, body, node.op, node.reduced, node.name, node.span, node.dtype
    )  # fmt: skip


def everything(outputs: Mapping[str, ir.Node]) -> list[ir.Node]:
    """All nodes of a program, arguments first, those inside scans too."""
    return ir.every_node(outputs.values())


def readers(outputs: Mapping[str, ir.Tensor]) -> Counter[ir.Node]:
    """How often each node is read, every read of a formula counted; being a result counts too."""
    uses: Counter[ir.Node] = Counter(outputs.values())
    for node in everything(outputs):
        found = [s.tensor for body in ir.bodies(node) for s in ir.scalars(body) if isinstance(s, ir.Read)]
        uses.update(found)
        uses.update(a for a in ir.arguments(node) if a not in found)
        if isinstance(node, ir.Scan):
            uses.update((*node.carries, *node.results))
    return uses
