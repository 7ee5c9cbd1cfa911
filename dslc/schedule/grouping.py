"""The walk over a program that puts every node into a step: the same for all targets.

What a target decides is where a comprehension goes (`comprehension`), how what only shows memory is told (`view`), and
what is left to say when all steps are there (`finish`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from dslc.ir import nodes as ir
from dslc.schedule.form import Call, Loop, Step


class Grouping(ABC):
    """Steps so far, and which of them computes a node."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.where: dict[ir.Node, int] = {}

    def grouped(self, order: Sequence[ir.Node], results: Iterable[ir.Node]) -> list[Step]:
        """The steps that compute some nodes, given arguments first; `results` are wanted by what is around them."""
        for node in self.ordered(order):
            match node:
                case ir.Input() | ir.Step() | ir.Custom():
                    continue
                case ir.Comp():
                    self.comprehension(node)
                case ir.Part() | ir.Reshape():
                    self.view(node)
                case ir.Scan():
                    inner = self.inside().grouped(ir.inside(node)[0], {*node.carries, *node.results})
                    self.step(node, Loop(node, inner))
                case _:
                    self.step(node, Call(node))
        self.finish(set(results))
        return self.steps

    def step(self, node: ir.Node, step: Step) -> None:
        """A step of its own for a node, behind those that there are."""
        self.where[node] = len(self.steps)
        self.steps.append(step)

    def last(self, nodes: Iterable[ir.Node]) -> int:
        """The last step that some nodes come from; -1 where all are there from the start."""
        return max((self.where[a] for a in nodes if a in self.where), default=-1)

    def ordered(self, order: Sequence[ir.Node]) -> Iterable[ir.Node]:
        """The same nodes in the order in which they are put into steps, without those that nothing needs."""
        return order

    @abstractmethod
    def inside(self) -> Grouping:
        """One for the steps of a loop."""

    @abstractmethod
    def comprehension(self, node: ir.Comp) -> None:
        """Put a comprehension into a step that is there, or into one of its own."""

    @abstractmethod
    def view(self, node: ir.Part | ir.Reshape) -> None:
        """Note a value that is there already, in memory that another step writes."""

    @abstractmethod
    def finish(self, results: set[ir.Node]) -> None:
        """Complete the steps, when all are there."""
