"""The kernel form: what one launch computes, over which tile axes. Nothing in it is particular to one backend.

A kernel has variables of its own, each with a size. They are split into tile axes:

    batch     one value in each program
    rows      the first axis of the tile
    columns   the second axis of the tile; reduced, or kept by a map or a contraction
    inner     an axis that contractions sum over, a block at a time

Its members are nodes of the IR with their variables renamed to those of the kernel. Members see one another's values
without a trip through memory; `stored` are those that others need.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.sizes import Size


@dataclass
class Member:
    """A node in a kernel: its axes and what it reduces over as variables of the kernel, its formula in them."""

    node: ir.Comp
    axes: tuple[int, ...]
    reduced: tuple[int, ...]
    body: ir.Scalar


@dataclass
class Dot:
    """A contraction of a kernel: left[batch, rows, inner] * right[batch, inner, columns], summed over inner."""

    node: ir.Comp
    left: ir.Scalar
    right: ir.Scalar
    inner: tuple[int, ...]


@dataclass
class Kernel:
    """One launch."""

    kind: str  # "map", "rows", "dot" or "stream"
    sizes: list[Size]
    rows: tuple[int, ...]
    columns: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    members: dict[ir.Node, Member] = field(default_factory=dict)
    stored: list[ir.Comp] = field(default_factory=list)
    #: contractions that a streaming kernel computes a block at a time, without storing them
    tiles: dict[ir.Node, Member] = field(default_factory=dict)
    #: contractions; those with the same inner variables run in one loop
    dots: list[Dot] = field(default_factory=list)
    #: short axes of a streaming kernel: what its tiles sum over, and those that its sums add
    short: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def space(self) -> tuple[int, ...]:
        """The variables of a full element."""
        return (*self.batch, *self.rows, *self.columns)

    def short_axis(self, sizes: Sequence[Size], taken: Collection[int] = ()) -> tuple[int, ...]:
        """A short axis of these sizes: no formula has two, so those of equal sizes are one and share what is loaded."""
        for axis in self.short:
            if [self.sizes[v] for v in axis] == list(sizes) and not set(axis) & set(taken):
                return axis
        axis = tuple(range(len(self.sizes), len(self.sizes) + len(sizes)))
        self.sizes += sizes
        self.short.append(axis)
        return axis

    def extent(self, axis: tuple[int, ...]) -> Size:
        count: Size = 1
        for v in axis:
            count = count * self.sizes[v]
        return count


@dataclass
class Loop:
    """A scan that runs on the host: the kernels and other steps of one pass through its body."""

    scan: ir.Scan
    steps: list[Step]


@dataclass
class Other:
    """A node that is no comprehension: an operation along an axis or on matrices, a view, a part of a node."""

    node: ir.Node


Step = Kernel | Loop | Other
