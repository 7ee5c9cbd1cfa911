"""From a program to its steps on a target: one list of passes, one grouping.

Some passes are for targets of one kind alone: a GPU has no scatter without atomic additions, and a tile of scores never
lies in memory; a processor keeps a row in its cache, and gives each thread some of a long sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from dslc.ir import nodes as ir
from dslc.passes.axes import ordered
from dslc.passes.comprehensions import as_comprehensions
from dslc.passes.constants import normalised, unscaled
from dslc.passes.contract import contracted
from dslc.passes.elementwise import inlined
from dslc.passes.exchange import exchanged
from dslc.passes.merge_scans import merge_read
from dslc.passes.narrow import HALVES, narrowed
from dslc.passes.normal import use_normal
from dslc.passes.picks import of_rows, picked
from dslc.passes.regroup import regrouped
from dslc.passes.sink import sunk
from dslc.passes.tiles import streamed
from dslc.passes.transform import Outputs, Pass, Stages, run_passes
from dslc.passes.unrounded import unrounded
from dslc.schedule import group, kernels
from dslc.schedule.again import recomputed
from dslc.schedule.form import Step
from dslc.schedule.parts import in_parts
from dslc.schedule.picked import as_selects
from dslc.schedule.plan import Schedule
from dslc.schedule.rows import costly_rows_kept
from dslc.schedule.target import Target
from dslc.schedule.widened import widened

TILES, LOOPS = "tiles", "loops"
BOTH = (TILES, LOOPS)


@dataclass(frozen=True)
class Asking:
    """A pass that asks the target what is worth it."""

    run: Callable[[Outputs, Target], dict[str, ir.Tensor]]

    def of(self, target: Target) -> Pass:
        return lambda outputs: self.run(outputs, target)


#: after those of `dslc/pipeline.py`: name, pass, and the kinds of targets that it is for
PASSES: tuple[tuple[str, Pass | Asking, Sequence[str]], ...] = (
    ("keep sums of 16 bits", unrounded, (TILES,)),
    ("as comprehensions", as_comprehensions, (TILES,)),
    ("select what is placed", as_selects, (LOOPS,)),
    ("join scans", merge_read, BOTH),
    ("place constants", normalised, BOTH),
    ("read multiples", unscaled, BOTH),
    ("order axes", ordered, (TILES,)),
    ("contract", contracted, BOTH),
    ("exchange sums", exchanged, BOTH),
    ("recompute", Asking(recomputed), BOTH),
    ("sink sums", sunk, BOTH),
    ("join scans again", merge_read, BOTH),
    ("pick entries", picked, (TILES,)),
    ("stream", streamed, (TILES,)),
    ("place constants again", normalised, (TILES,)),
    ("contract again", contracted, BOTH),
    ("regroup", regrouped, (LOOPS,)),
    ("inline into kernels", inlined, BOTH),
    ("rows of losses", of_rows, (TILES,)),
    ("widen", widened, (LOOPS,)),
    ("use the normal distribution", use_normal, (LOOPS,)),
    ("place constants at last", normalised, BOTH),
    ("keep costly rows", Asking(costly_rows_kept), (LOOPS,)),
    ("sum up in parts", Asking(in_parts), (LOOPS,)),
)


def passes_for(target: Target) -> dict[str, Pass]:
    """The passes for a target, by name and in order."""
    kind = TILES if target.tiles else LOOPS
    return {
        name: each.of(target) if isinstance(each, Asking) else each for name, each, kinds in PASSES if kind in kinds
    }


def prepared(
    outputs: Outputs, target: Target, dtype: str = "f32", exact: Collection[str] = (), stages: Stages | None = None
) -> dict[str, ir.Tensor]:
    """A program after the passes for a target; `exact` results are never kept in 16 bits; `stages` gets it after each
    pass."""
    passes = passes_for(target)
    if dtype in HALVES and target.tiles:
        passes["narrow"] = lambda x: narrowed(x, dtype, exact)
    return run_passes(outputs, passes, [] if stages is None else stages)


def schedule(
    outputs: Outputs, target: Target, dtype: str = "f32", exact: Collection[str] = (), stages: Stages | None = None
) -> Schedule:
    """A program after the passes for a target, and its steps."""
    results = prepared(outputs, target, dtype, exact, stages)
    return Schedule(results, scheduled(list(results.values()), target))


def scheduled(roots: Sequence[ir.Tensor], target: Target) -> list[Step]:
    """The steps that compute some values, in order."""
    return kernels.scheduled(roots, target) if target.tiles else group.scheduled(roots)
