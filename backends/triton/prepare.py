"""From a program to the steps that compute it: the passes for kernels in their order."""

from __future__ import annotations

from collections.abc import Collection

from dslc.backends.triton.target import TARGET

from dslc.passes.axes import ordered
from dslc.passes.comprehensions import as_comprehensions
from dslc.passes.constants import normalised, unscaled
from dslc.passes.contract import contracted
from dslc.passes.elementwise import inlined
from dslc.passes.exchange import exchanged
from dslc.passes.merge_scans import merge_read
from dslc.passes.narrow import HALVES, narrowed
from dslc.passes.picks import picked
from dslc.passes.recompute import recompute
from dslc.passes.sink import sunk
from dslc.passes.tiles import streamed
from dslc.passes.transform import Outputs, Pass, Stages, run_passes
from dslc.passes.unrounded import unrounded
from dslc.schedule.kernels import scheduled
from dslc.schedule.plan import Schedule

#: after those of `dslc/pipeline.py`
PASSES: dict[str, Pass] = {
    "keep sums of 16 bits": unrounded,
    "as comprehensions": as_comprehensions,
    "join scans": merge_read,
    "place constants": normalised,
    "read multiples": unscaled,
    "order axes": ordered,
    "contract": contracted,
    "exchange sums": exchanged,
    "recompute": recompute,
    "sink sums": sunk,
    "join scans again": merge_read,
    "pick entries": picked,
    "stream": streamed,
    "place constants again": normalised,
    "contract again": contracted,
    "inline into kernels": inlined,
    "place constants at last": normalised,
}


def prepared(
    outputs: Outputs, dtype: str = "f32", exact: Collection[str] = (), stages: Stages | None = None
) -> Schedule:
    """The program after all passes, and its steps; `exact` results are never kept in 16 bits.

    `stages` gets the program after each pass.
    """
    passes = dict(PASSES)
    if dtype in HALVES:
        passes["narrow"] = lambda x: narrowed(x, dtype, exact)
    found = run_passes(outputs, passes, [] if stages is None else stages)
    return Schedule(found, scheduled(list(found.values()), TARGET))
