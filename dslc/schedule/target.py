"""Facts of a machine, which a schedule asks whether a fusion is worth it. None of them makes one legal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dslc.sizes import Size, at_most


@dataclass(frozen=True)
class Target:
    """A machine whose programs have tiles."""

    #: the longest row that a program holds as a whole
    longest_row: int
    #: how many sums the size of a tile it may have at a time
    accumulators: int
    #: how many programs keep the machine busy
    programs: int
    #: threads that run as one
    lanes: int
    #: words of tiles that a thread may hold beside offsets, masks and what ends a sum
    words: int

    def holds(self, sizes: Sequence[Size]) -> bool:
        """Is a row of these sizes held as a whole? One of unknown length is not."""
        return at_most(self.longest_row, sizes)
