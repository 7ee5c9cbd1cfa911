"""Which values are computed together in blocks of rows: what lies between them stays in the cache.

A block is a list of comprehensions over one first axis, the rows. Each reads the others, and arrays from outside, in
the same row only, so all of them can be computed for some rows before the next rows come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dslc.autodiff.reverse import COSTLY
from dslc.ir import nodes as ir
from dslc.passes.products import split, variables
from dslc.passes.sums import estimate
from dslc.passes.views import is_view
from dslc.sizes import Size

#: a block must have as many operations on whole arrays as this, or it gains nothing
LEAST_WORK = 5
#: and its largest value as many elements (sizes that are not known count 256)
LEAST_SIZE = 50_000
#: how many times the work of an addition a function of this kind is
COSTLY_WORK = 8


@dataclass
class Block:
    rows: Size
    members: list[ir.Comp] = field(default_factory=list)


Item = ir.Node | Block


def members(item: Item) -> tuple[ir.Node, ...]:
    return tuple(item.members) if isinstance(item, Block) else (item,)


def plan(order: Sequence[ir.Node], inlined: Callable[[ir.Node], bool]) -> list[Item]:
    """The nodes in order, with blocks in place of what they contain."""
    out: list[Item] = []
    block: Block | None = None
    inside: set[ir.Node] = set()
    for node in order:
        if isinstance(node, ir.Comp) and _eligible(node, inlined):
            if block is not None and (node.shape[0] != block.rows or not _row_by_row(node, inside)):
                out += _closed(block, inlined)
                block = None
            if block is None:
                block, inside = Block(node.shape[0]), set()
            block.members.append(node)
            inside.add(node)
        elif block is not None and any(_depends(a, inside, inlined) for a in ir.arguments(node)):
            out += _closed(block, inlined)
            block = None
            out.append(node)
        else:
            out.append(node)
    return out + (_closed(block, inlined) if block is not None else [])


def _depends(node: ir.Node, inside: set[ir.Node], inlined: Callable[[ir.Node], bool]) -> bool:
    if node in inside:
        return True
    return inlined(node) and any(_depends(a, inside, inlined) for a in ir.arguments(node))


def _closed(block: Block, inlined: Callable[[ir.Node], bool]) -> list[Item]:
    """The block, or its members one by one when it is too small to gain anything."""
    largest = max(_elements(x) for x in block.members)
    work = sum(_work(x) for x in block.members if _elements(x) * 4 >= largest)
    shown = [x for x in block.members if not inlined(x)]
    if largest < LEAST_SIZE or work < LEAST_WORK or not shown:
        return list(block.members)
    return [block]


def _elements(node: ir.Comp) -> float:
    total = 1.0
    for size in (*node.shape, *node.reduced):
        total *= estimate(size, 256)
    return total


def _work(node: ir.Comp) -> int:
    return sum(COSTLY_WORK if s.name in COSTLY else 1 for s in ir.scalars(node.body) if isinstance(s, ir.Op))


def _eligible(node: ir.Comp, inlined: Callable[[ir.Node], bool]) -> bool:
    """Can a comprehension be computed row by row?"""
    if not node.shape or is_view(node) or ir.slice_of_input(node) or 0 not in variables(node.body):
        return False
    if node.op == "sum" and _is_product_with_weights(node):
        return False
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read):
            touched = 0
            first = sum(isinstance(x, ir.At) for x in s.places)
            for axis, (place, size) in enumerate(zip(s.places, s.tensor.shape, strict=True)):
                if isinstance(place, ir.Affine) and any(n == 0 for n, _ in place.terms):
                    if place is not ir.plain(0) or size != node.shape[0] or axis != first:
                        return False
                    touched += 1
            if touched > 1 or (inlined(s.tensor) and not _may_contain(s, inlined)):
                return False
    return True


def _may_contain(read: ir.Read, inlined: Callable[[ir.Node], bool]) -> bool:
    """May a block contain a value that has no line of its own?"""
    node = read.tensor
    if not isinstance(node, ir.Comp) or not node.shape:
        return True
    if 0 not in variables(node.body):
        return True
    return read.places[0] is ir.plain(0) and _eligible(node, inlined)


def _row_by_row(node: ir.Comp, inside: set[ir.Node]) -> bool:
    """Does a comprehension read the members of a block in its own row only?"""
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read) and s.tensor in inside and s.places[0] is not ir.plain(0):
            return False
    return True


def _is_product_with_weights(node: ir.Comp) -> bool:
    """A contraction of rows with weights: one matrix product over all rows is faster than one for each block."""
    parts = [x for x in (variables(x) for x in split(node.body).above) if x]
    summed = set(range(len(node.shape), len(node.shape) + len(node.reduced)))
    return any(0 not in x and x & summed and len(x) > 1 for x in parts)
