"""Long matrices are not saved for the reversed scan: it computes them again, a block at a time, from what is saved.

A scan over layers stacks the values that its adjoint reads. Those that are tiles (attention weights, for example) are
formulas of shorter values: the reversed scan reads these instead. A backend chooses what else is computed again: values
that some additions and multiplications make of others that are saved, or whatever saves most memory
(`dslc/schedule/again.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from dslc.ir import nodes as ir
from dslc.ops.table import COSTLY
from dslc.passes.tiles import candidates
from dslc.passes.transform import Outputs, Transform, everything, with_body
from dslc.passes.unread import drop_unread

#: what is computed again rather than kept has at most this many
MOST_OPERATIONS = 8


@dataclass
class Plan:
    """A scan with some of its stacked results computed again, and the results that are stacked for that."""

    scan: ir.Scan
    tiles: Collection[ir.Node]
    extra: list[ir.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inner = set(ir.inside(self.scan)[0])
        pending: list[ir.Node] = [r for r in self.scan.results if r in self.tiles]
        seen: set[ir.Node] = set()
        while pending:
            tile = pending.pop()
            if tile in seen:
                continue
            seen.add(tile)
            for body in ir.bodies(tile):
                for s in ir.scalars(body):
                    if not isinstance(s, ir.Read) or s.tensor not in self.inner or is_number(s.tensor):
                        continue
                    if ir.slice_of_input(s.tensor):
                        continue
                    if s.tensor in self.tiles:
                        pending.append(s.tensor)
                    elif s.tensor not in self.scan.results and s.tensor not in self.extra:
                        self.extra.append(s.tensor)

    @property
    def results(self) -> tuple[ir.Tensor, ...]:
        return (*self.scan.results, *self.extra)


def is_number(tensor: ir.Tensor) -> bool:
    return isinstance(tensor, ir.Step) and tensor.kind == "number"


def is_cheap(node: ir.Tensor, scan: ir.Scan, tiles: Collection[ir.Node]) -> bool:
    """Is a stacked value a few operations on others that are stacked anyway, and on parameters?"""
    if not isinstance(node, ir.Comp) or node.op is not None or len(node.shape) < 2:
        return False
    kept = {x for x in scan.results if x not in tiles and x is not node}
    operations = [s for s in ir.scalars(node.body) if isinstance(s, ir.Op)]
    reads = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
    return (
        0 < len(operations) <= MOST_OPERATIONS
        and not any(s.name in COSTLY for s in operations)
        and not any(isinstance(s, ir.Rand) for s in ir.scalars(node.body))
        and all(x in kept or ir.slice_of_input(x) for x in reads)
    )


#: which values of all nodes of a program are computed again
Chosen = Callable[[Sequence[ir.Node]], set[ir.Node]]


def tiles(order: Sequence[ir.Node]) -> set[ir.Node]:
    """Long matrices alone."""
    return set(candidates(order))


def tiles_and_cheap(order: Sequence[ir.Node]) -> set[ir.Node]:
    """Long matrices, and what a few operations give."""
    found = tiles(order)
    for scan in order:
        if isinstance(scan, ir.Scan) and scan.kind == "layers":
            for result in scan.results:
                if is_cheap(result, scan, found):
                    found.add(result)
    return found


class Recomputed(Transform):
    def __init__(self, outputs: Outputs, chosen: Chosen) -> None:
        super().__init__()
        order = everything(outputs)
        tiles = chosen(order)
        scans = [x for x in order if isinstance(x, ir.Scan) and any(r in tiles for r in x.results)]
        self.plans = {x: Plan(x, tiles) for x in scans}
        self.again: dict[tuple[ir.Node, ir.Step], ir.Tensor] = {}

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Scan) and node in self.plans:
            return super()._one(ir.intern(replace(node, results=self.plans[node].results)))
        if isinstance(node, ir.Part) and node.of in self.plans:
            plan = self.plans[node.of]
            number = node.number + (len(plan.extra) if node.number >= len(plan.scan.results) else 0)
            return ir.intern(replace(node, of=self.done[node.of], number=number))  # type: ignore[arg-type]
        if isinstance(node, ir.Comp):
            body = self.rewritten(node.body)
            if body is not node.body:
                node = ir.intern(replace(node, body=body))
                for a in ir.arguments(node):
                    self.node(a)
        return super()._one(node)

    def rewritten(self, root: ir.Scalar) -> ir.Scalar:
        """A formula that reads tiles computed again instead of stacked ones."""

        def again(s: ir.Read) -> ir.Scalar:
            if not isinstance(s.tensor, ir.Part) or s.tensor.of not in self.plans:
                return s
            plan, number = self.plans[s.tensor.of], s.tensor.number
            first = s.places[0] if s.places else None
            if number >= len(plan.scan.results) or not isinstance(first, ir.At) or first.offset != 0:
                return s
            tile = plan.scan.results[number]
            return ir.read(self.lifted(plan, tile, first.step), s.places[1:], s.outside) if tile in plan.tiles else s

        return ir.with_reads(root, again)

    def lifted(self, plan: Plan, tile: ir.Node, step: ir.Step) -> ir.Tensor:
        """A tile of the scan's body at the step of another scan."""
        assert isinstance(tile, ir.Comp)
        if (tile, step) not in self.again:
            own = plan.scan.number

            def place(p: ir.Place) -> ir.Place:
                return ir.intern(ir.At(step, p.offset)) if isinstance(p, ir.At) and p.step.scan == own else p

            def there(s: ir.Read) -> ir.Scalar:
                tensor = s.tensor
                places = tuple(place(p) for p in s.places)
                if is_number(tensor) and isinstance(tensor, ir.Step) and tensor.scan == own:
                    tensor = step
                elif tensor in plan.inner and (tensor in plan.tiles or ir.slice_of_input(tensor)):
                    tensor = self.lifted(plan, tensor, step)
                elif tensor in plan.inner:
                    shape = (plan.scan.length, *tensor.shape)
                    part = ir.Part(plan.scan, plan.results.index(tensor), tensor.dtype, shape, tensor.name)
                    tensor = self.appended(plan, ir.intern(part))
                    places = (ir.intern(ir.At(step)), *places)
                return ir.intern(ir.Read(tensor, places, s.dtype, s.outside))

            self.again[tile, step] = with_body(tile, ir.with_reads(tile.body, there))
        return self.again[tile, step]

    def appended(self, plan: Plan, part: ir.Part) -> ir.Tensor:
        """A part of the scan with the results added to it; its number is that in the longer list."""
        made = ir.intern(replace(part, of=self.node(plan.scan)))  # type: ignore[arg-type]
        self.done[made] = made
        return made


def recompute(outputs: Outputs, chosen: Chosen = tiles) -> dict[str, ir.Tensor]:
    """The same results, where what is chosen is computed again."""
    pass_ = Recomputed(outputs, chosen)
    return drop_unread(pass_.outputs(outputs)) if pass_.plans else dict(outputs)


def recomputed(roots: list[ir.Tensor], chosen: Chosen) -> list[ir.Tensor]:
    """The same for results without names."""
    return list(recompute({str(k): x for k, x in enumerate(roots)}, chosen).values())
