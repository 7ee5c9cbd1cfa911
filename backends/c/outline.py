"""What a C module computes together, and where its values lie: for `dslc show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dslc.backends.c.module import prepared

from dslc.ir import nodes as ir
from dslc.ir.naming import name_lines
from dslc.schedule.group import scheduled
from dslc.schedule.plan import planned
from dslc.schedule.show import groups, readers_of, slots


def fused(roots: Sequence[ir.Tensor], dtype: str) -> Iterator[str]:
    """A line for each product, pass, loop and call of the schedule."""
    results = prepared({str(k): x for k, x in enumerate(roots)})
    name_lines([*results.values()])
    steps = scheduled([*results.values()])
    return groups(steps, planned(steps, results))


def memory(forward: Sequence[ir.Tensor], backward: Sequence[ir.Tensor], dtype: str) -> Iterator[str]:
    """The slots of the workspace with the values that share them, and where results and values of loops lie."""
    results = prepared({str(k): x for k, x in enumerate((*forward, *backward))})
    roots = [*results.values()]
    name_lines(roots)
    own = set(ir.every_node(roots[: len(forward)]))
    steps = scheduled(roots)
    return slots(planned(steps, results), own, readers_of(ir.every_node(roots)), dtype)
