"""When values are in memory: from the step that computes them to the last one that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dslc.schedule.form import Loop, Step

Loops = tuple[Loop, ...]


@dataclass
class Life:
    """When a value is computed, and when it is read for the last time."""

    first: int
    last: int


@dataclass
class Lives:
    """The lives of values so far, while the steps are gone through in order."""

    lives: dict[object, Life] = field(default_factory=dict)
    #: the loops around the moment at which a value is there, and their first and last moments
    around: dict[object, Loops] = field(default_factory=dict)
    spans: dict[Loop, tuple[int, int]] = field(default_factory=dict)
    time: int = 0

    def begin(self, loop: Loop, now: int) -> int:
        """A loop begins; gives the moment at which it ends."""
        self.spans[loop] = now, now + 1 + length(loop.steps)
        return self.spans[loop][1]

    def computed(self, value: object, now: int, loops: Loops) -> None:
        self.around[value] = loops
        self.lives.setdefault(value, Life(now, now))

    def read(self, value: object, now: int, loops: Loops) -> int:
        """A value that is there is read at a moment; one from outside of a loop until the loop ends, which it gives."""
        outside = len(self.around[value])
        for loop in loops[outside : outside + 1]:
            now = max(now, self.spans[loop][1])
        self.until(value, now)
        return now

    def until(self, value: object, now: int) -> None:
        if value in self.lives:
            self.lives[value].last = max(self.lives[value].last, now)


def length(steps: Sequence[Step]) -> int:
    """How many moments some steps take: one each, and one more for the end of a loop."""
    return sum(1 + (1 + length(x.steps) if isinstance(x, Loop) else 0) for x in steps)
