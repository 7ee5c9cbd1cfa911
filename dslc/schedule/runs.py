"""How often a kernel runs over its columns. Sums that run beside the maximum they need take no second run.

A sum with the factor exp(z - shift(max z)) is known for the columns so far. When the maximum grows from m to m', what
was summed with m is multiplied by exp(m - shift(m')).
"""

from __future__ import annotations

from collections.abc import Sequence

from dslc.ir import nodes as ir
from dslc.passes.contract import factors
from dslc.schedule.form import Kernel, Member, Rescaled, Run


def runs_of(kernel: Kernel) -> list[Run]:
    """The runs of a kernel: one for all reductions that wait for no other, maps of rows as soon as they can be."""
    found: list[Run] = []
    waiting = list(kernel.members.values())
    while waiting:
        now = ready(waiting)
        maps = [m for m in now if m.node.op is None and not set(m.axes) & set(kernel.columns)]
        if maps:
            found.append(Run(maps, False))
        else:
            rescaled = rescaled_sums(now, waiting)
            found.append(Run([m for m in waiting if m in now or m.node in rescaled], True, rescaled))
        waiting = [m for m in waiting if m not in found[-1].members]
    return found


def ready(waiting: Sequence[Member]) -> list[Member]:
    """Members that read no reduction which is still to be made."""
    pending = {m.node for m in waiting if m.node.op is not None}
    blocked: set[ir.Node] = set()
    out = []
    for m in waiting:
        reads = {s.tensor for s in ir.scalars(m.body) if isinstance(s, ir.Read)}
        if reads & (pending | blocked):
            blocked.add(m.node)
        else:
            out.append(m)
    return out


def rescaled_sums(now: Sequence[Member], waiting: Sequence[Member]) -> dict[ir.Node, Rescaled]:
    """The sums among those that wait which can run in the pass of `now`."""
    return {m.node: found for m in waiting if m not in now and (found := rescaled(m, now, waiting)) is not None}


def rescaled(m: Member, now: Sequence[Member], waiting: Sequence[Member]) -> Rescaled | None:
    """Can a sum run beside the maximum that it needs? It must be a multiple of exp(z - shift(max z))."""
    if m.node.op != "sum":
        return None
    pending = {x.node for x in waiting if x.node.op is not None}
    needs = {s.tensor for s in ir.scalars(m.body) if isinstance(s, ir.Read)} & pending
    if len(needs) != 1:
        return None
    peak = next((x for x in now if x.node in needs and x.node.op == "max"), None)
    if peak is None:
        return None
    found: Rescaled | None = None
    for f in factors(m.body):
        reads = any(isinstance(s, ir.Read) and s.tensor is peak.node for s in ir.scalars(f.scalar))
        if not reads:
            continue
        s = f.scalar
        if found is not None or f.below or not (isinstance(s, ir.Op) and s.name == "exp"):
            return None
        gap = s.args[0]
        if not (isinstance(gap, ir.Op) and gap.name == "-" and gap.args[0] is peak.body):
            return None
        found = Rescaled(peak, gap.args[1])
    return found
