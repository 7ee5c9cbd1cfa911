"""Values of which each thread has some rows at a time, as C text: their buffers in the workspace, their pointers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dslc.backends.c.text import factor

from dslc.ir import nodes as ir
from dslc.schedule.form import Region
from dslc.schedule.plan import Block
from dslc.sizes import Size

if TYPE_CHECKING:
    from dslc.backends.c.entry import EntryText
    from dslc.backends.c.kernel import Kernel


#: bytes between buffers, so that rows of the same number do not fall onto each other in a cache
APART = 320


@dataclass(frozen=True)
class Blocks:
    """The buffers of a region: how many rows they have, and the sizes of a row of each, with its type."""

    rows: int
    own: tuple[tuple[str, Size], ...]
    #: the rows of the whole region, and how many a thread takes at least
    pieces: Size
    grain: int

    def bytes(self, kernel: Kernel) -> list[str]:
        """What each buffer takes, which has no more rows than the region."""
        rows = str(self.rows)
        if self.rows > 1 and not isinstance(self.pieces, int):
            rows = f"min_size({self.rows}, {kernel.size(self.pieces)})"
        elif isinstance(self.pieces, int):
            rows = str(min(self.rows, self.pieces))
        return [f"sizeof({ctype}) * ({rows} * {factor(kernel.size(size))}) + {APART}" for ctype, size in self.own]

    def each(self, kernel: Kernel) -> str:
        """What they take together for one thread."""
        return " + ".join(f"padded({size})" for size in self.bytes(kernel))

    def room(self, kernel: Kernel) -> str:
        """What they take for all threads that can be at work."""
        pieces = factor(kernel.size(self.pieces))
        most = pieces if self.grain == 1 else f"{pieces} / {self.grain} + 1"
        return f"min_size(f->threads, {most}) * {factor(self.each(kernel))}"


def has_blocks(entry: EntryText, region: Region) -> bool:
    """Has a region values of which its threads have some rows?"""
    return any(isinstance(entry.plan.homes.get(x), Block) for x in region.nodes)


def blocks_of(entry: EntryText, region: Region, nodes: list[ir.Node]) -> Blocks:
    """The buffers for some values of a region."""
    own = tuple((entry.element_type(x), math.prod(x.shape[region.depth :])) for x in nodes)  # type: ignore[union-attr]
    return Blocks(entry.rows(region), own, math.prod(region.sizes), entry.grain(region))


def pointer_lines(kernel: Kernel, region: Region, first: str) -> list[str]:
    """Pointers to where row 0 of each value would be, in the loop over pieces of the rows that begin at `first`."""
    entry, names = kernel.entry, kernel.names
    blocks = blocks_of(entry, region, [*kernel.blocks])
    entry.blocks.append(blocks)
    block, taken = names.fresh("block"), names.fresh("taken_of_block")
    head = {
        block: f"char *{block} = f->blocks + thread_number * {factor(blocks.each(kernel))};",
        taken: f"size_t {taken} = 0;",
    }
    lines = []
    for name, (ctype, size), room in zip(kernel.blocks.values(), blocks.own, blocks.bytes(kernel), strict=True):
        own = names.fresh(f"{name}_block")
        head[own] = f"{ctype} *{own} = taken({block}, &{taken}, {room});"
        far = kernel.size(size)
        lines.append(f"{ctype} *{name} = {own} - {first}{'' if far == '1' else f' * {factor(far)}'};")
    kernel.head |= head
    return ["    " * kernel.indent + line for line in lines]
