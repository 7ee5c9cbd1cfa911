"""Which values are computed together in blocks of rows: what lies between them stays in the cache.

A block is a list of values over one first axis, the rows. Each reads the others, and arrays from outside, in the same
row only, so all of them can be computed for some rows before the next rows come. Sums over the rows are added up
from block to block; they are known after the last one.
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
LEAST_WORK = 3
#: and its largest value as many elements (sizes that are not known count 256)
LEAST_SIZE = 50_000
#: how many times the work of an addition a function of this kind is
COSTLY_WORK = 8

Member = ir.Comp | ir.Reshape
Inlined = Callable[[ir.Node], bool]


@dataclass
class Block:
    rows: Size
    #: the values, and which of their variables counts the rows
    members: dict[Member, int] = field(default_factory=dict)

    def is_total(self, node: ir.Node) -> bool:
        """Is a member a sum over the rows?"""
        return isinstance(node, ir.Comp) and self.members[node] >= len(node.shape)


Item = ir.Node | Block


def members(item: Item) -> tuple[ir.Node, ...]:
    return tuple(item.members) if isinstance(item, Block) else (item,)


def plan(order: Sequence[ir.Node], inlined: Inlined) -> list[Item]:
    """The nodes in order, with blocks in place of what they contain."""
    out: list[Item] = []
    block: Block | None = None
    for node in order:
        if inlined(node):
            continue  # it is part of the values that contain it
        found = _row(node, block, inlined)
        if found is None:
            if block is not None and any(_depends(a, block, inlined) for a in ir.arguments(node)):
                out += _closed(block, inlined)
                block = None
            out.append(node)
            continue
        row, rows = found
        if block is not None and (rows != block.rows or not _row_by_row(node, row, block, inlined)):
            out += _closed(block, inlined)
            block = None
        if block is None:
            block = Block(rows)
        assert isinstance(node, Member)
        block.members[node] = row
    return out + (_closed(block, inlined) if block is not None else [])


def _row(node: ir.Node, block: Block | None, inlined: Inlined) -> tuple[int, Size] | None:
    """The variable that counts the rows of a value, and how many there are; None when it cannot be part of a block."""
    if isinstance(node, ir.Reshape):
        known = block is not None and node.of in block.members and not block.is_total(node.of)
        same = bool(node.shape) and bool(node.of.shape) and node.shape[0] == node.of.shape[0]
        return (0, node.shape[0]) if known and same else None
    if not isinstance(node, ir.Comp):
        return None
    if node.shape and _eligible(node, 0, inlined):
        return 0, node.shape[0]
    if node.op == "sum" and (not isinstance(node.body, ir.Read) or _reads(node, block)):
        for row in range(len(node.shape), len(node.shape) + len(node.reduced)):
            if _is_elementwise(node) and _eligible(node, row, inlined):
                return row, node.reduced[row - len(node.shape)]
    return None


def _reads(node: ir.Comp, block: Block | None) -> bool:
    return block is not None and any(a in block.members for a in ir.arguments(node))


def _sizes(node: Member) -> tuple[Size, ...]:
    return (*node.shape, *node.reduced) if isinstance(node, ir.Comp) else node.shape


def _is_elementwise(node: ir.Comp) -> bool:
    """Is the summed formula an array that is computed, then summed, and no product of matrices?"""
    every = [variables(x) for x in split(node.body).above]
    largest = max(every, key=len, default=frozenset())
    return bool(node.reduced) and len(largest) == len(_sizes(node)) and all(x <= largest for x in every)


def _depends(node: ir.Node, block: Block, inlined: Inlined) -> bool:
    if node in block.members:
        return True
    return inlined(node) and any(_depends(a, block, inlined) for a in ir.arguments(node))


def _closed(block: Block, inlined: Inlined) -> list[Item]:
    """The block, or its members one by one when it is too small to gain anything."""
    largest = max(_elements(x) for x in block.members)
    everything = [y for x in block.members for y in contents(x, inlined)]
    work = sum(_work(x) for x in everything if _elements(x) * 4 >= largest)
    if largest < LEAST_SIZE or work < LEAST_WORK:
        return list(block.members)
    return [block]


def contents(node: Member, inlined: Inlined) -> list[Member]:
    """A value and those without a line of their own that are part of its formula."""
    found = [node]
    for x in found:
        found += [a for a in ir.arguments(x) if isinstance(a, ir.Comp) and inlined(a) and a not in found]
    return found


def is_large(node: Member) -> bool:
    return _elements(node) >= LEAST_SIZE


def is_worth_a_line(node: ir.Comp) -> bool:
    """A sum over many rows that a block can add up: as a part of a formula it could not be one."""
    if node.op != "sum" or not is_large(node) or not _work(node) or not _is_elementwise(node):
        return False
    reads = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read) and len(variables(s)) == len(_sizes(node))]
    first = {n for s in reads if isinstance(s.places[0], ir.Affine) for n, _ in s.places[0].terms}
    return bool(first) and all(n >= len(node.shape) for n in first)


def extent(node: Member) -> tuple[Size, ...]:
    """The sizes of the largest array that a value needs: a product of matrices needs none for what it sums."""
    is_product = isinstance(node, ir.Comp) and node.op == "sum" and not _is_elementwise(node)
    return node.shape if is_product else _sizes(node)


def _elements(node: Member) -> float:
    total = 1.0
    for size in extent(node):
        total *= estimate(size, 256)
    return total


def _work(node: Member) -> int:
    if isinstance(node, ir.Reshape):
        return 0
    return sum(COSTLY_WORK if s.name in COSTLY else 1 for s in ir.scalars(node.body) if isinstance(s, ir.Op))


def _eligible(node: ir.Comp, row: int, inlined: Inlined) -> bool:
    """Can a comprehension be computed row by row?"""
    rows = (*node.shape, *node.reduced)[row]
    if is_view(node) or ir.slice_of_input(node) or row not in variables(node.body):
        return False
    if node.op == "sum" and row == 0 and _is_product_with_weights(node):
        return False
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read):
            touched = 0
            first = sum(isinstance(x, ir.At) for x in s.places)
            for axis, (place, size) in enumerate(zip(s.places, s.tensor.shape, strict=True)):
                if isinstance(place, ir.Affine) and any(n == row for n, _ in place.terms):
                    if place is not ir.plain(row) or size != rows or axis != first:
                        return False
                    touched += 1
            if touched > 1 or (inlined(s.tensor) and not _may_contain(s, row, inlined)):
                return False
    return True


def _may_contain(read: ir.Read, row: int, inlined: Inlined) -> bool:
    """May a block contain a value that has no line of its own?"""
    node = read.tensor
    if not is_cut(node):
        return True
    assert isinstance(node, ir.Comp)
    return read.places[0] is ir.plain(row) and _eligible(node, 0, inlined)


def _row_by_row(node: ir.Node, row: int, block: Block, inlined: Inlined) -> bool:
    """Does a value read the members of a block in its own row only, and no sum over the rows?"""
    for s in (x for body in ir.bodies(node) for x in ir.scalars(body)):
        if not isinstance(s, ir.Read):
            continue
        if s.tensor in block.members:
            if block.is_total(s.tensor) or s.places[0] is not ir.plain(row):
                return False
        elif inlined(s.tensor) and _depends(s.tensor, block, inlined):
            if not is_cut(s.tensor) or not _row_by_row(s.tensor, 0, block, inlined):
                return False
    return True


def is_cut(node: ir.Node) -> bool:
    """Does a value without a line of its own differ from row to row?"""
    return isinstance(node, ir.Comp) and bool(node.shape) and 0 in variables(node.body)


def _is_product_with_weights(node: ir.Comp) -> bool:
    """A contraction of rows with weights: one matrix product over all rows is faster than one for each block."""
    parts = [x for x in (variables(x) for x in split(node.body).above) if x]
    summed = set(range(len(node.shape), len(node.shape) + len(node.reduced)))
    return any(0 not in x and x & summed and len(x) > 1 for x in parts)
