"""The schedule: the steps of a program in order, as data. One form for all targets.

    schedule = [Region | Kernel | AddUp | Recurrence | Loop | Call | View]
    Region   loops over parallel axes, the first `depth` axes of all its members; its items run for a piece of them
    Pass     a nest of loops inside of a region: members share its loops, and see one another's values in registers
    Product  a matrix product inside of a region
    Kernel   one launch for a target with tiles: each program has a tile of its axes
    AddUp    one launch that adds up the parts of sums, which kernels before it have left
    Recurrence  a scan that is one kernel: each element of what it carries depends on itself alone
    Loop     a scan: the steps of one pass through its body
    Call     an operation that is a call: a scatter, an operation along an axis or on matrices
    View     a value that is there: a part of what a step gives, or the same memory in another shape

In a region, a member reads what another one computes at the same place of the parallel axes only. So each piece of
these axes can be computed by itself, in any order and on any thread, with the same result bit by bit. So it is in a
kernel, whose programs are such pieces. That is what makes a fusion legal, and `aligned` asks it of the program alone.

A kernel has variables of its own, each with a size. They are split into tile axes:

    batch     one value in each program
    rows      the first axis of the tile
    columns   the second axis of the tile; reduced, or kept by a map or a contraction
    inner     an axis that contractions sum over, a block at a time

Its members are nodes of the IR with their variables renamed to those of the kernel. Members see one another's values
without a trip through memory; `stored` are those that others need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.sizes import Size


@dataclass(eq=False)
class Pass:
    """Loops over `extra` axes, inside of those of the region; all members number their variables alike.

    A member without a reduction has a value at each place; one with a reduction adds up over the loops. `kind`:
    "map" for these two; "rows" for a reduction that has axes of its own inside of the region, which it keeps in memory
    while it runs over what it reduces; "columns" where these axes are the parallel axes themselves; "statement" where
    arrays are computed as a whole: the last member, of whose formula the others are parts.
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


@dataclass(frozen=True)
class Rescaled:
    """A sum with the factor exp(z - shift) whose maximum is found in the same pass."""

    peak: Member
    shift: ir.Scalar


@dataclass(frozen=True)
class Tile:
    """What a program has of the axes of its kernel at a time, and what it is launched with."""

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    #: an estimate of the words of all tiles that are alive at a time, where warps are chosen by it
    words: int = 0


@dataclass(eq=False)
class Run:
    """Members that a program computes together: reductions in one run over its columns, or maps of what is there."""

    members: list[Member]
    over_columns: bool
    #: sums that run beside the maximum that they need
    rescaled: dict[ir.Node, Rescaled] = field(default_factory=dict)


@dataclass(eq=False)
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
    #: one after another, where rows are too long for a tile
    runs: list[Run] = field(default_factory=list)
    #: chosen by a target with tiles
    tile: Tile | None = None
    split: Split | None = None
    #: written over a value of which all threads of a program have read what they need before
    over: set[ir.Node] = field(default_factory=set)

    @property
    def space(self) -> tuple[int, ...]:
        """The variables of a full element."""
        return (*self.batch, *self.rows, *self.columns)

    def new_axes(self, m: Member) -> tuple[int, ...]:
        """The axes of a reduction that its tile does not have."""
        return tuple(v for v in m.axes if v not in self.batch and v not in self.rows)

    def short_axis(self, sizes: Sequence[Size], taken: Collection[int] = ()) -> tuple[int, ...]:
        """A short axis of these sizes: no formula has two, so those of equal sizes are one and share what is loaded."""
        for axis in self.short:
            if [self.sizes[v] for v in axis] == list(sizes) and not set(axis) & set(taken):
                return axis
        axis = tuple(range(len(self.sizes), len(self.sizes) + len(sizes)))
        self.sizes += sizes
        self.short.append(axis)
        return axis


@dataclass(frozen=True)
class Split:
    """A kernel as two: reductions of parts, and what is made of them."""

    count: int
    #: where the parts of a reduction lie: those of the first axis
    parts: Mapping[ir.Node, ir.Input]
    first: Kernel
    #: None where the parts are added up after the loop that the kernel is in
    second: Kernel | None


@dataclass(frozen=True)
class Afterwards:
    """The sum of the parts of all steps of a loop, along a first axis."""

    split: Split
    parts: Mapping[ir.Node, ir.Input]
    kernel: Kernel
    #: what stands for the results of a step
    results: Mapping[ir.Node, ir.Comp]


@dataclass(eq=False)
class AddUp:
    """Sums whose parts are all there, and that nothing has waited for until now."""

    kernels: list[Kernel]


@dataclass(frozen=True)
class Affine:
    """`sum of coefficient * carried value, plus shift`; a missing shift is 0."""

    coefficients: dict[int, ir.Scalar]
    shift: ir.Scalar | None


@dataclass(frozen=True)
class Linear:
    """The next value of everything carried, and groups of values that depend on one another, in order."""

    forms: list[Affine]
    groups: list[tuple[int, ...]]


@dataclass(eq=False)
class Recurrence:
    """A scan as one kernel: what it carries stays in registers from step to step."""

    scan: ir.Scan
    members: dict[ir.Node, Member]
    #: how the next values are made, where that is linear in what is carried: then its steps can run in a tree
    linear: Linear | None
    #: which of its parts are read
    read: frozenset[int]
    #: elements of the state, and steps where they run in a tree; chosen by a target with tiles
    tile: Tile | None = None


@dataclass(eq=False)
class Loop:
    """A scan: the steps of one pass."""

    scan: ir.Scan
    steps: list[Step]
    #: sums whose parts are added up after the loop, for all of its steps at once
    afterwards: list[Afterwards] = field(default_factory=list)


@dataclass(eq=False)
class Call:
    """A node that is no comprehension and has a value."""

    node: ir.Scatter | ir.Along | ir.External


@dataclass(eq=False)
class View:
    """A value in memory that another step writes."""

    node: ir.Reshape | ir.Part


Step = Region | Kernel | AddUp | Recurrence | Loop | Call | View


def nodes_of(step: Step) -> list[ir.Node]:
    """What a step computes; of a loop, the scan."""
    match step:
        case Region():
            return [*step.nodes]
        case Kernel():
            return [m.node for m in (*step.members.values(), *step.tiles.values())]
        case AddUp():
            return [x for kernel in step.kernels for x in nodes_of(kernel)]
        case Loop() | Recurrence():
            return [step.scan]
        case Call() | View():
            return [step.node]


def reads_of(step: Step) -> list[ir.Node]:
    """What a step reads, its own members too; of a loop what starts it, but not what its steps read."""
    if isinstance(step, Loop | Recurrence):
        inside = [m.node for m in step.members.values()] if isinstance(step, Recurrence) else []
        return [*step.scan.starts, *(a for node in inside for a in ir.arguments(node))]
    if isinstance(step, AddUp):
        bodies = [m.body for kernel in step.kernels for m in kernel.members.values()]
        own = {x for kernel in step.kernels for x in kernel.members}
        tensors = [s.tensor for body in bodies for s in ir.scalars(body) if isinstance(s, ir.Read)]
        return [x for x in tensors if x not in own]
    return [a for node in nodes_of(step) for a in ir.arguments(node)]


def all_reads(step: Step) -> list[ir.Node]:
    """What a step reads, and what the steps of a loop and its end do."""
    found: list[ir.Node] = []
    for inner in walked([step]):
        found += reads_of(inner)
        if isinstance(inner, Loop):
            found += (*inner.scan.carries, *inner.scan.results)
    return found


def walked(steps: Sequence[Step]) -> list[Step]:
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


def based(node: ir.Node) -> ir.Node:
    """The node whose memory a view shows."""
    node = resolved(node)
    while isinstance(node, ir.Reshape):
        node = resolved(node.of)
    return node


def aligned(node: ir.Comp, axes: Mapping[ir.Node, Sequence[int]]) -> dict[int, int] | None:
    """The variables of a formula as those of a region or kernel that it is to join; None where that is not legal.

    `axes` are those of the values that are computed there: each of them must be read where it is, at its own place.
    """
    found: dict[int, int] = {}
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read):
            for place, axis in zip(s.places, axes.get(s.tensor, ()), strict=False):
                variable = plain_variable(place)
                if variable is None or found.setdefault(variable, axis) != axis:
                    return None
    return found if len(set(found.values())) == len(found) else None
