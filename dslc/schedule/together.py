"""Regions that run together, so that what is large between them stays in a cache.

A product may read a value that has more entries than its own result, as the gradients of keys and values read attention
weights. The region that computes such a value then moves down to that of the product, cut along one axis less if
need be: along batches and heads, not along rows. The value is there for a piece at a time, and never as a whole.
"""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.schedule.form import Region, Step, aligned, all_reads, based, nodes_of, resolved
from dslc.schedule.products import product_of
from dslc.sizes import about

#: regions are not cut along fewer axes than these, as there must be work for all threads
FEWEST_AXES = 2


def together(steps: list[Step]) -> None:
    """Merge such regions, from the last one on."""
    k = len(steps) - 1
    while k >= 0:
        found = next((j for j in range(k + 1, len(steps)) if _meet(steps, k, j)), None)
        k = k - 1 if found is None else found - 1  # where its readers are now: they may have others below


def _meet(steps: list[Step], k: int, j: int) -> bool:
    """Merge the step k into the step j, with all steps between them that need it behind them."""
    above, below = steps[k], steps[j]
    if not isinstance(above, Region) or not isinstance(below, Region):
        return False
    late: list[Step] = [above]
    for step in (*steps[k + 1 : j], below):
        made = {x for other in late for x in nodes_of(other)}
        if any(a in made or based(a) in made for a in all_reads(step)):
            late.append(step)
    if below not in late or any(_reads(below, x) for x in late[1:-1]) or not _merge(above, below):
        return False
    early = [x for x in steps[k:j] if x not in late]
    steps[k : j + 1] = [*early, below, *late[1:-1]]
    return True


def _reads(step: Step, other: Step) -> bool:
    made = {*nodes_of(other)}
    return any(a in made or based(a) in made for a in all_reads(step))


def _merge(above: Region, below: Region) -> bool:
    """Let the lower one of two regions compute what the upper one does, where that is legal and worth it."""
    if not _reads_more(above, below):
        return False
    most = min(above.depth, below.depth)
    for depth in (most, most - 1):
        if depth >= FEWEST_AXES and above.sizes[:depth] == below.sizes[:depth] and _fits(above, below, depth):
            below.sizes = below.sizes[:depth]
            below.nodes[:0] = above.nodes
            return True
    return False


def _reads_more(above: Region, below: Region) -> bool:
    """Does a product of the lower region read a value of the upper one that has more entries than its result?"""
    own: set[ir.Node] = {*above.nodes}
    return any(
        based(a) in own and about(a.shape) > about(node.shape)  # type: ignore[union-attr]
        for node in below.nodes
        if product_of(node) is not None
        for a in ir.arguments(node)
    )


def _fits(above: Region, below: Region, depth: int) -> bool:
    """Is all that the lower region reads of the upper one at its own place of so many axes?"""
    own: set[ir.Node] = {*above.nodes}
    for node in below.nodes:
        read = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read) and based(s.tensor) in own]
        found = aligned(node, dict.fromkeys(read, range(depth)))
        if found is None or any(variable != axis for variable, axis in found.items()):
            return False
        if any(not isinstance(resolved(x), ir.Comp) for x in read):
            return False
    return True
