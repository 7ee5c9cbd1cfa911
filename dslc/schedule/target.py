"""Facts of a machine, which passes and schedules ask whether something is worth it. None of them makes it legal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dslc.sizes import Size, at_most


@dataclass(frozen=True)
class Target:
    """A machine: one whose programs have tiles, a share of which each thread holds, or one whose programs are loops."""

    #: the longest row that a program holds as a whole, in registers or in the first cache
    longest_row: int
    #: does a program have a tile of rows and columns?
    tiles: bool = False
    #: how many sums the size of a tile it may have at a time
    accumulators: int = 1
    #: how many programs keep the machine busy
    programs: int = 1
    #: threads that run as one
    lanes: int = 1
    #: words of tiles that a thread may hold beside offsets, masks and what ends a sum
    words: int = 0
    #: with more results of a sum than these, each thread has some of its own, and the sum is not taken in parts
    results: int = 0
    #: a part of a sum of fewer entries is not worth it
    part: int = 0
    #: what memory is worth; None: only long matrices are computed again for a gradient
    memory: Memory | None = None

    def holds(self, sizes: Sequence[Size]) -> bool:
        """Is a row of these sizes held as a whole? One of unknown length is not."""
        return at_most(self.longest_row, sizes)


@dataclass(frozen=True)
class Memory:
    """What memory is worth that a gradient needs from the forward pass, where it can compute values again."""

    #: how many operations of formulas a byte is worth
    worth: int
    #: the largest share of the operations of a step that is computed again, products too
    share: float
