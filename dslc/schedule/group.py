"""Which nodes run in one region, and in one nest of loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dslc.ir import nodes as ir
from dslc.schedule.early import early_reductions
from dslc.schedule.form import Item, Pass, Region, Step, aligned, based, resolved
from dslc.schedule.grouping import Grouping
from dslc.schedule.products import product_of, stride
from dslc.schedule.together import together


def scheduled(roots: Sequence[ir.Tensor]) -> list[Step]:
    """The steps that compute the roots, in order."""
    return Regions(needed(roots)).grouped(ir.schedule(tuple(roots)), roots)


def needed(roots: Sequence[ir.Node]) -> set[ir.Node]:
    """All that is computed: what only a derivative by hand is given is not."""
    found: set[ir.Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        match node:
            case ir.Part(of=ir.Custom()):
                stack.append(resolved(node))
            case ir.Scan():
                stack += (*node.starts, *node.carries, *node.results)
            case _:
                stack += ir.arguments(node)
    return found


class Regions(Grouping):
    """Steps for a target whose programs are loops: nodes with the same parallel axes share a region."""

    def __init__(self, wanted: set[ir.Node]) -> None:
        super().__init__()
        self.wanted = wanted

    def ordered(self, order: Sequence[ir.Node]) -> Iterable[ir.Node]:
        return (node for node in early_reductions(order) if node in self.wanted)

    def inside(self) -> Regions:
        return Regions(self.wanted)

    def view(self, node: ir.Part | ir.Reshape) -> None:
        if isinstance(node.of, ir.Custom):
            self.where[node] = self.last([resolved(node)])
        else:
            self.where[node] = self.last([node.of])

    def comprehension(self, node: ir.Comp) -> None:
        """A region that a node may join, or a new one."""
        for k in range(max(self.last(ir.arguments(node)), 0), len(self.steps)):
            region = self.steps[k]
            if isinstance(region, Region) and joins(node, region):
                self.where[node] = k
                return
        self.step(node, Region(node.shape[: most_axes(node)], [node]))

    def finish(self, results: set[ir.Node]) -> None:
        together(self.steps)
        for step in self.steps:
            if isinstance(step, Region):
                while step.depth > 1 and all(x.op is None and len(x.shape) == step.depth for x in step.nodes):
                    step.sizes = step.sizes[:-1]  # maps alone: their last axis is a loop in vectors
                step.items = items_of(step)


@ir.remembered
def most_axes(node: ir.Comp) -> int:
    """How many first axes of a comprehension it can be cut along."""
    rank = len(node.shape)
    if node.op is None:
        return rank
    product = product_of(node)
    if product is not None:
        return product.rows + 1
    return rank - 1 if rank > 1 and along_result(node) else rank


def parallel_axes(node: ir.Comp) -> int:
    """How many it is best cut along: the last axis of a map is a loop in vectors."""
    most = most_axes(node)
    return most - 1 if node.op is None and most > 1 else most


def along_result(node: ir.Comp) -> bool:
    """Does a reduction run along its result in memory, not along what it reduces?"""
    if not node.shape or not node.reduced or node.op in ("argmax", "argmin"):
        return False
    kept, summed = len(node.shape) - 1, len(node.shape) + len(node.reduced) - 1
    reads = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read) and s.places]
    reads = [s for s in reads if not any(isinstance(x, ir.Data) for x in s.places)]
    widest = max((len(s.places) for s in reads), default=0)  # a row's own values are few
    found = sum((stride(s, kept) == 1) - (stride(s, summed) == 1) for s in reads if len(s.places) == widest)
    return found > 0


def joins(node: ir.Comp, region: Region) -> bool:
    """Let a region compute a node too, cut along fewer axes if need be; False where that is not legal or worth it."""
    depth = min(region.depth, most_axes(node))
    best = max(parallel_axes(node), *map(parallel_axes, region.nodes))
    if (depth == 0 and best > 0) or depth + 1 < best > 2:
        return False
    if node.shape[:depth] != region.sizes[:depth] or (depth < region.depth and not _many(region.sizes[:depth])):
        return False
    if not _at_same_place(node, region, depth):
        return False
    region.sizes = region.sizes[:depth]
    region.nodes.append(node)
    return True


def _many(sizes: Sequence[object]) -> bool:
    return any(size != 1 for size in sizes)


def _at_same_place(node: ir.Comp, region: Region, depth: int) -> bool:
    """Does a node read members of a region where it is itself, along the parallel axes?"""
    members = set(region.nodes)
    read = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read) and based(s.tensor) in members]
    found = aligned(node, dict.fromkeys(read, range(depth)))
    same = found is not None and all(variable == axis for variable, axis in found.items())
    return same and all(_keeps_axes(tensor, depth) for tensor in read)


def _keeps_axes(tensor: ir.Node, depth: int) -> bool:
    """Has the memory that a value shows the same first axes?"""
    tensor = resolved(tensor)
    while isinstance(tensor, ir.Reshape) and tensor.shape[:depth] == tensor.of.shape[:depth]:
        tensor = resolved(tensor.of)
    return not isinstance(tensor, ir.Reshape)


# ---- inside of a region ----------------------------------------------------------------------------------


def items_of(region: Region) -> list[Item]:
    """Passes and products of a region, in order; maps and reductions over the same axes share their loops."""
    items: list[Item] = []
    where: dict[ir.Node, int] = {}
    for node in region.nodes:
        product = product_of(node)
        if product is not None and product.rows + 1 >= region.depth:
            where[node] = len(items)
            items.append(product)
            continue
        made = _pass_of(node, region.depth)
        reads = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
        needs = {based(s.tensor) for s in reads}
        first = max((where[a] for a in needs if a in where), default=0)
        for k in range(first, len(items)):
            item = items[k]
            if made.kind == "map" and isinstance(item, Pass) and item.kind == "map" and item.extra == made.extra:
                if all(_in_register(s, item) for s in reads):
                    item.members.append(node)
                    where[node] = k
                    break
        else:
            made.members.append(node)
            where[node] = len(items)
            items.append(made)
    return items


def _in_register(s: ir.Read, item: Pass) -> bool:
    """Is a read none of a member of a pass, or one of its value at this very place?"""
    tensor = resolved(s.tensor)
    if based(tensor) not in item.members:
        return True
    return isinstance(tensor, ir.Comp) and tensor.op is None and is_here(s)


def is_here(s: ir.Read) -> bool:
    """Is a read of all axes at the loops' own variables, in order?"""
    return s.outside is None and all(x is ir.plain(k) for k, x in enumerate(s.places))


def _pass_of(node: ir.Comp, depth: int) -> Pass:
    own = node.shape[depth:]
    if node.op is None:
        return Pass("map", own)
    if not own and depth == 1 and along_result(node):
        return Pass("columns", node.reduced)
    return Pass("rows", (*own, *node.reduced)) if own else Pass("map", node.reduced)
