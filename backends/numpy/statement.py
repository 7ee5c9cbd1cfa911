"""From IR nodes to NumPy text: one statement for each node, by its kind."""

from __future__ import annotations

from dslc.backends.numpy.loops import Loops
from dslc.backends.numpy.others import Others
from dslc.backends.numpy.text import size_code

from dslc.ir import nodes as ir


class Lowering(Loops, Others):
    """The text of one function body."""

    def statement(self, node: ir.Node) -> None:
        self.writing = getattr(node, "span", None)
        match node:
            case ir.Comp() if ir.slice_of_input(node) and self.star(node):
                self.assign(node, self.star(node))
            case ir.Comp():
                if not self.stored(node):
                    self.assign(node, self.full(self.comp(node), node.shape, node.dtype))
            case ir.Scatter():
                self.scatter(node)
            case ir.Reshape():
                shape = ", ".join(size_code(s) for s in node.shape)
                self.assign(node, f"{self.tensor(node.of)}.reshape({shape})")
            case ir.Along():
                self.along(node)
            case ir.External():
                self.external(node)
            case ir.Scan():
                if node.name == "layers":
                    self.layers(node)
                else:
                    self.scan(node)
            case ir.Custom():
                self.names[node] = ""
            case ir.Part():
                self.part(node)
            case ir.Input():
                assert node in self.stars, f"input {node.name} has no name"
