"""What a loop over layers keeps for its gradient, and what that computes again: the fewest bytes, by a smallest cut.

The loop back needs some values of each layer. Each of them is kept, or computed again from others that are kept, from
the parameters and from what the layer was given. The values are nodes of a network: to keep one costs its bytes, to
compute one again costs nothing, but everything that it reads must be there then. A smallest cut between what may be
computed again and what is needed says which are kept. What may be computed again is bounded by the target: formulas
first, then products, those first that save most bytes for an operation, while the operations of all that is computed
again are at most a share of those of the step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.ops.table import COSTLY, FREE
from dslc.passes.elementwise import extremes
from dslc.passes.recompute import recompute
from dslc.passes.sides import is_contraction
from dslc.passes.tiles import candidates
from dslc.passes.transform import Outputs
from dslc.schedule.plan import BYTES
from dslc.schedule.target import Memory, Target
from dslc.sizes import about

#: the gradient of a layer takes about twice the operations of the layer
STEP = 3
#: operations that a costly function counts as
COSTS = 32
NEVER = float("inf")
#: the share of its own bytes that a product costs beside its operations, so that none is computed again for nothing
LEAST = 0.01


def recomputed(outputs: Outputs, target: Target) -> dict[str, ir.Tensor]:
    """The same results, where the gradients of loops compute again what the target would not keep."""
    memory = target.memory
    return recompute(outputs) if memory is None else recompute(outputs, lambda order: computed_again(order, memory))


def computed_again(order: Sequence[ir.Node], memory: Memory) -> set[ir.Node]:
    """The values of loops that their gradients compute again; `order` are all nodes of a program.

    Tiles, as attention weights, are never kept: they grow with the square of a length.
    """
    tiles: set[ir.Node] = set(candidates(order))
    compared = set().union(*(extremes(node) for node in order))
    found = set(tiles)
    read = _reads_of_stacks(order)
    for scan in order:
        if isinstance(scan, ir.Scan) and scan.kind == "layers" and read.get(scan):
            found |= Layer(scan, tiles, compared, read[scan], memory).again()
    return found


def _reads_of_stacks(order: Sequence[ir.Node]) -> dict[ir.Scan, dict[ir.Tensor, bool]]:
    """The results of loops that are read, and whether only a step at a time."""
    found: dict[ir.Scan, dict[ir.Tensor, bool]] = {}

    def note(part: ir.Node, by_step: bool) -> None:
        if isinstance(part, ir.Part) and isinstance(part.of, ir.Scan) and part.number < len(part.of.results):
            results = found.setdefault(part.of, {})
            value = part.of.results[part.number]
            results[value] = results.get(value, True) and by_step

    for node in order:
        inside = {s.tensor for body in ir.bodies(node) for s in ir.scalars(body) if isinstance(s, ir.Read)}
        for a in ir.arguments(node):
            if a not in inside and not isinstance(node, ir.Scan):
                note(a, False)
        for body in ir.bodies(node):
            for s in ir.scalars(body):
                if isinstance(s, ir.Read):
                    first = s.places[0] if s.places else None
                    note(s.tensor, isinstance(first, ir.At) and first.offset == 0)
        if isinstance(node, ir.Scan):
            for x in (*node.starts, *node.carries, *node.results):
                note(x, False)
    return found


@dataclass
class Layer:
    """One loop: what its gradient reads, and what may be computed again."""

    scan: ir.Scan
    tiles: Collection[ir.Node]
    compared: Collection[ir.Node]
    #: its results that are read, and whether only a step at a time
    read: dict[ir.Tensor, bool]
    memory: Memory

    def __post_init__(self) -> None:
        self.inner = [x for x in ir.inside(self.scan)[0] if not _is_there(x)]
        self.wanted = [x for x, by_step in self.read.items() if by_step and x in set(self.inner)]
        #: what is kept anyway
        self.stacked: set[ir.Node] = {x for x, by_step in self.read.items() if not by_step}

    def again(self) -> set[ir.Node]:
        """What the gradient computes again."""
        free = [x for x in self.inner if x not in self.tiles and self.may_be_again(x)]
        formulas = {x for x in free if not is_contraction(x)}  # type: ignore[arg-type]
        products = _most_worth_first(x for x in free if x not in formulas)
        most = self.memory.share * STEP * sum(map(_operations, self.inner))
        allowed: set[ir.Node] = set()
        found = self.cut(allowed)
        for more in (formulas, *({x} for x in products)):
            new = self.cut(allowed | more)
            if sum(_operations(x) for x in new if x not in self.tiles) <= most:
                allowed, found = allowed | more, new
        return found

    def may_be_again(self, node: ir.Node) -> bool:
        """Is a value a formula that gives the same number again, and not one that others are compared with?"""
        return (
            isinstance(node, ir.Comp)
            and node not in self.compared
            and not any(isinstance(s, ir.Rand) for s in ir.scalars(node.body))
        )

    def price(self, node: ir.Node) -> float:
        """What it costs to compute a value again, in bytes."""
        return LEAST * _bytes(node) if is_contraction(node) else _operations(node) / self.memory.worth  # type: ignore[arg-type]

    def room(self, node: ir.Node) -> float:
        """What it costs to keep a value."""
        if node in self.stacked:
            return 0.0
        return NEVER if node in self.tiles else _bytes(node)

    def cut(self, allowed: Collection[ir.Node]) -> set[ir.Node]:
        """What is computed again, where that may be the tiles and what is allowed."""
        network = Network()
        for node in self.inner:
            again = 0.0 if node in self.tiles else self.price(node) if node in allowed else NEVER
            network.pipe("source", ("value", node), again)
            network.pipe(("value", node), ("there", node), self.room(node))
            for a in ir.arguments(node):
                if a in network.values:
                    network.pipe(("there", a), ("value", node), NEVER)
            network.values.add(node)
        for node in self.wanted:
            network.pipe(("there", node), "sink", NEVER)
        full = network.full()
        return {x for x in self.inner if ("value", x) not in full}


@dataclass
class Network:
    """Pipes between points, each of a width."""

    widths: dict[object, dict[object, float]] = field(default_factory=dict)
    values: set[ir.Node] = field(default_factory=set)

    def pipe(self, a: object, b: object, width: float) -> None:
        self.widths.setdefault(a, {})[b] = width
        self.widths.setdefault(b, {}).setdefault(a, 0.0)

    def full(self) -> set[object]:
        """The points that the source still reaches when no more flows to the sink."""
        left = {a: dict(to) for a, to in self.widths.items()}
        while True:
            before: dict[object, object] = {"source": None}
            queue: list[object] = ["source"]
            for a in queue:
                for b, width in left.get(a, {}).items():
                    if width > 0 and b not in before:
                        before[b] = a
                        queue.append(b)
            if "sink" not in before:
                return set(before)
            path: list[tuple[object, object]] = []
            at: object = "sink"
            while before[at] is not None:
                path.append((before[at], at))
                at = before[at]
            most = min(left[a][b] for a, b in path)
            assert most < NEVER, "a value can neither be kept nor computed again"
            for a, b in path:
                left[a][b] = 0.0 if left[a][b] == most else left[a][b] - most
                left[b][a] += most


def _most_worth_first(products: Iterable[ir.Node]) -> list[ir.Node]:
    """Products that save most bytes for an operation first; of those that save alike the largest."""
    return sorted(products, key=lambda x: (round(_operations(x) / _bytes(x), 3), -_bytes(x)))


def _is_there(node: ir.Node) -> bool:
    """Is a value there in each step of any loop: a parameter of the layer, or its number?"""
    return (isinstance(node, ir.Step) and node.kind == "number") or ir.slice_of_input(node)


def _bytes(node: ir.Node) -> float:
    return BYTES.get(getattr(node, "dtype", ""), 4.0) * about(getattr(node, "shape", ()))


def _operations(node: ir.Node) -> float:
    if not isinstance(node, ir.Comp):
        return 0.0
    each = sum(COSTS if s.name in COSTLY else s.name not in FREE for s in ir.scalars(node.body) if isinstance(s, ir.Op))
    return (each + (node.op is not None)) * about((*node.shape, *node.reduced))
