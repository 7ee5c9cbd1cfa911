"""The schedule: the steps of a program in order, as data.

    schedule = [Region | Loop | Call]
    Region   loops over parallel axes, the first `depth` axes of all its members; its items run for a piece of them
    Pass     a nest of loops inside of a region: members share its loops, and see one another's values in registers
    Product  a matrix product inside of a region
    Loop     a scan: the steps of one pass through its body
    Call     an operation that is a call: a scatter, an operation along an axis or on matrices

In a region, a member reads what another one computes at the same place of the parallel axes only. So each piece of
these axes can be computed by itself, in any order and on any thread, with the same result bit by bit. That is what
makes a fusion legal, and it is asked of the program alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.sizes import Size


@dataclass(eq=False)
class Pass:
    """Loops over `extra` axes, inside of those of the region; all members number their variables alike.

    A member without a reduction has a value at each place; one with a reduction adds up over the loops. `kind`:
    "map" for these two; "rows" for a reduction that has axes of its own inside of the region, which it keeps in memory
    while it runs over what it reduces; "columns" where these axes are the parallel axes themselves.
    """

    kind: str
    extra: tuple[Size, ...]
    members: list[ir.Comp] = field(default_factory=list)


@dataclass(eq=False)
class Product:
    """left[rows, inner] * right[inner, columns], for each place of all other axes; both as they lie in memory."""

    node: ir.Comp
    left: ir.Read
    right: ir.Read
    #: the variable of the rows, and that of the columns, which is the last axis of the result
    rows: int
    columns: int


@dataclass(eq=False)
class Gathered:
    """left[rows, inner] * right[inner, columns], where a side is a formula, as the windows of a convolution are.

    The first axes of the result are its rows, the others its columns. Pieces of the left side are written to a scratch
    buffer that stays in the cache, the right side as a whole, where it is not a matrix in memory already.
    """

    node: ir.Comp
    left: ir.Scalar
    right: ir.Scalar
    #: the last of the axes that are rows
    rows: int
    #: the summed variables, those last that lie side by side in memory
    inner: tuple[int, ...]
    #: the last of them, which are one piece of memory, where the left side is an array; else none
    whole: tuple[int, ...] = ()


Item = Pass | Product | Gathered


@dataclass(eq=False)
class Region:
    """Members over the same parallel axes."""

    sizes: tuple[Size, ...]
    nodes: list[ir.Comp] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return len(self.sizes)


@dataclass(eq=False)
class Loop:
    """A scan: the steps of one pass."""

    scan: ir.Scan
    steps: list[Step]


@dataclass(eq=False)
class Call:
    """A node that is no comprehension and has a value."""

    node: ir.Scatter | ir.Along | ir.External


Step = Region | Loop | Call


def walked(steps: list[Step]) -> list[Step]:
    """All steps, those of loops too, in the order in which they run."""
    found: list[Step] = []
    stack = list(reversed(steps))
    while stack:
        step = stack.pop()
        found.append(step)
        if isinstance(step, Loop):
            stack += reversed(step.steps)
    return found


def resolved(node: ir.Node) -> ir.Node:
    """The node that has the value: what a derivative by hand wraps is that itself."""
    while isinstance(node, ir.Part) and isinstance(node.of, ir.Custom):
        node = node.of.values[node.number]
    return node
