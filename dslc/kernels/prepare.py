"""From results in the IR to the steps that compute them: the passes in their order."""

from __future__ import annotations

from collections.abc import Collection

from dslc.ir import nodes as ir
from dslc.kernels.axes import ordered
from dslc.kernels.constants import normalised, unscaled
from dslc.kernels.contract import contracted
from dslc.kernels.deviations import without_deviations
from dslc.kernels.exchange import exchanged
from dslc.kernels.form import Step
from dslc.kernels.group import scheduled
from dslc.kernels.inline import inlined
from dslc.kernels.narrow import HALVES, narrowed
from dslc.kernels.picks import picked
from dslc.kernels.recompute import recomputed
from dslc.kernels.sink import sunk
from dslc.kernels.stream import streamed
from dslc.kernels.sums import as_comprehensions, joined_scans

PASSES = (
    as_comprehensions, joined_scans, without_deviations, normalised, unscaled, ordered, contracted, exchanged,
    recomputed, sunk, joined_scans, picked, streamed, normalised, contracted, inlined, normalised,
)  # fmt: skip


def prepared(
    roots: list[ir.Tensor], dtype: str = "f32", exact: Collection[int] = ()
) -> tuple[list[ir.Tensor], list[Step]]:
    """The roots after all passes, and the steps in order; `exact` roots are never kept in 16 bits."""
    for pass_ in PASSES:
        roots = pass_(roots)
    if dtype in HALVES:
        roots = narrowed(roots, dtype, exact)
    return roots, scheduled(roots)
