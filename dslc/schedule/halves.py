"""A program cut in two: results that are wanted first, results that are wanted later, and what is kept for these.

The adjoints of a model are asked for when its outputs are long there: what they read of the forward pass is saved by
the first half, and is an input of the second. A value that only adjoints are made of is computed by the half with which
less has to be kept; by the second, where a `checkpoint:` of the spec says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.ir.rewrite import Substitute
from dslc.schedule.form import based, resolved
from dslc.schedule.group import needed
from dslc.schedule.plan import BYTES
from dslc.sizes import about


@dataclass
class Halves:
    """Two programs, and the values that the first one saves, by the names of the inputs that the second one reads."""

    first: dict[str, ir.Tensor]
    second: dict[str, ir.Tensor]
    saved: dict[str, tuple[ir.Tensor, ir.Input]]


def halves(first: Mapping[str, ir.Tensor], second: Mapping[str, ir.Tensor], late: Collection[ir.Node]) -> Halves:
    """Cut a program between its results; `late` are inputs that the first half is not given."""
    cut = Cut(list(second.values()), set(late))
    for x in first.values():
        cut.early(x)
    values: dict[str, ir.Tensor] = {}
    for x in cut.saved():
        name = f"{name_of(x) or 'value'} saved"
        values[name if name not in values else f"{name} {len(values)}"] = x
    inputs = {k: ir.intern(ir.Input(k, "saved", x.dtype, x.shape)) for k, x in values.items()}
    put = Substitute({}, plain={x: inputs[k] for k, x in values.items()}, everywhere=True)
    made = {k: put.tensor(x) for k, x in second.items()}
    return Halves(dict(first), made, {k: (x, inputs[k]) for k, x in values.items()})


@dataclass
class Cut:
    """Which half computes a node."""

    roots: list[ir.Tensor]
    late: set[ir.Node]
    first: set[ir.Node] = field(default_factory=set)
    second: set[ir.Node] = field(default_factory=set)

    def early(self, root: ir.Node) -> None:
        """The first half computes a node, with all that it is made of."""
        stack = [root]
        while stack:
            node = stack.pop()
            assert node not in self.late, "the first half needs what only the second is given"
            if node not in self.first:
                self.first.add(node)
                stack += made_of(node)

    def saved(self) -> list[ir.Tensor]:
        """The values that the first half saves, after each node of the second has found its half."""
        wanted = needed(self.roots)
        order = [x for x in ir.schedule(tuple(self.roots)) if x in wanted and not isinstance(x, ir.Input)]
        given_late = set(self.late)
        for node in order:
            if any(x in given_late for x in made_of(node)):
                given_late.add(node)
            elif not has_value(node) and self.is_there(node):
                self.first.add(node)
        self.second |= given_late & {*order}
        kept = {x: None for node in order if node in self.second for x in self.read(made_of(node))}
        sizes: dict[ir.Node, float] = {}
        for node in order:  # of several values, all count
            if isinstance(node, ir.Part):
                sizes[node.of] = sizes.get(node.of, 0) + size(node)
        for node in order:
            if node in self.first or node in self.second:
                continue
            more = {x for x in self.read(made_of(node)) if x not in kept}
            own = sizes.get(node) or size(node)
            if self.sooner(node, own, sum(map(size, more))) if has_value(node) else self.is_there(node):
                self.early(node)
            else:
                self.second.add(node)
                kept.update(dict.fromkeys(more))
        # a value of the first half may be a result of the second
        readers = [made_of(node) for node in order if node in self.second]
        return list(dict.fromkeys(x for below in [*readers, tuple(self.roots)] for x in self.read(below)))

    def read(self, nodes: Iterable[ir.Node]) -> list[ir.Tensor]:
        """The values of the first half that a node reads which is computed from these."""
        found = map(based, nodes)
        return [x for x in found if x in self.first and isinstance(x, ir.Comp | ir.Scatter | ir.Part)]

    def is_there(self, node: ir.Node) -> bool:
        """Is all that a node is made of computed by the first half?"""
        return all(x in self.first for x in made_of(node))

    def sooner(self, node: ir.Node, own: float, others: float) -> bool:
        """Is a value better saved than what it is made of, which takes so many bytes more?"""
        below = made_of(node)
        return 0 < own <= others and not any(x in self.second or is_apart(x) for x in below)


def made_of(node: ir.Node) -> tuple[ir.Node, ...]:
    """The nodes that a node is computed from: not those that a derivative by hand is given."""
    value = resolved(node)
    return (value,) if value is not node else ir.arguments(node)


def has_value(node: ir.Node) -> bool:
    """Is a node computed, and not another way to read one?"""
    return isinstance(node, ir.Comp | ir.Scatter | ir.Along | ir.External | ir.Scan)


def is_apart(node: ir.Node) -> bool:
    """Is this an argument of what a `checkpoint:` computes again?"""
    while isinstance(node, ir.Reshape):
        node = node.of
    return isinstance(node, ir.Part) and isinstance(node.of, ir.Custom) and isinstance(node.of.rule, ir.Apart)


def size(node: ir.Node) -> float:
    """The bytes of a value, where all open sizes are alike."""
    return BYTES.get(getattr(node, "dtype", ""), 4.0) * about(getattr(node, "shape", ()))
