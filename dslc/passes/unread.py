"""Loops without what nothing reads: results that nobody asks for, and carried values that only carry themselves on.

Reverse mode carries an adjoint for every carried value, be it always 0, and keeps what its loop back might need; later
passes find other ways to some of it. A result that is just a step of an array from outside needs no stack, either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dslc.ir import nodes as ir
from dslc.ir.steady import steady
from dslc.passes.transform import Outputs, Transform, everything


def drop_unread(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same results; a loop that loses something may be the last reader of another."""
    found = _Unstacked().outputs(outputs)
    while True:
        read: dict[ir.Scan, set[int]] = {}
        for node in (*everything(found), *found.values()):
            if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
                read.setdefault(node.of, set()).add(node.number)
        plans = {scan: plan for scan, numbers in read.items() if (plan := needed(scan, numbers)).is_less_than(scan)}
        if not plans:
            return found
        found = _Trim(plans).outputs(found)


class _Unstacked(Transform):
    """The stack of all steps of an array that is there as a whole is that array; so is what no step changes."""

    def visit(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.number < len(node.of.results):
            whole = stack_of(node.of.results[node.number], node.of)
            if whole is not None and whole.shape == node.shape and whole.dtype == node.dtype:
                return whole
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            return steady(node) or node
        return node


def stack_of(result: ir.Tensor, scan: ir.Scan) -> ir.Tensor | None:
    """The array from outside of a loop that a result of it is a step of, if it is one."""
    if not isinstance(result, ir.Comp) or result.op is not None or not isinstance(result.body, ir.Read):
        return None
    read = result.body
    first, *rest = read.places or (None,)
    at_step = isinstance(first, ir.At) and first.step.scan == scan.number and first.offset == 0
    plain = all(place is ir.plain(k) for k, place in enumerate(rest))
    outside = read.tensor in ir.inside(scan)[1] and not isinstance(read.tensor, ir.Input)
    return read.tensor if at_step and plain and outside else None


@dataclass(frozen=True)
class Needed:
    """The numbers of the results and of the carried values of a loop that are needed."""

    results: tuple[int, ...]
    carries: tuple[int, ...]

    def is_less_than(self, scan: ir.Scan) -> bool:
        return len(self.results) < len(scan.results) or len(self.carries) < len(scan.carries)

    def number(self, scan: ir.Scan, number: int) -> int:
        """The number of a value of the loop among those that are left."""
        count = len(scan.results)
        return self.results.index(number) if number < count else len(self.results) + self.carries.index(number - count)


def needed(scan: ir.Scan, read: set[int]) -> Needed:
    """What a loop must compute so that some of its values, results and then last carries, are there."""
    count = len(scan.results)
    results = tuple(k for k in range(count) if k in read)
    carries = {k - count for k in read if k >= count}
    while True:
        wanted = [*(scan.results[k] for k in results), *(scan.carries[j] for j in sorted(carries))]
        below = ir.schedule(tuple(wanted))
        more = {x.place for x in below if isinstance(x, ir.Step) and x.scan == scan.number and x.kind == "carry"}
        if more <= carries:
            return Needed(results, tuple(sorted(carries)))
        carries |= more


class _Trim(Transform):
    def __init__(self, plans: dict[ir.Scan, Needed]) -> None:
        super().__init__()
        self.plans = plans
        for scan, plan in plans.items():
            for x in ir.inside(scan)[0]:
                if isinstance(x, ir.Step) and x.scan == scan.number and x.kind == "carry" and x.place in plan.carries:
                    self.done[x] = ir.intern(replace(x, place=plan.carries.index(x.place)))

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Scan) and node in self.plans:
            plan = self.plans[node]
            starts = tuple(node.starts[j] for j in plan.carries)
            carries = tuple(node.carries[j] for j in plan.carries)
            results = tuple(node.results[k] for k in plan.results)
            made = tuple(tuple(self.tensor(x) for x in group) for group in (starts, carries, results))
            return ir.intern(replace(node, starts=made[0], carries=made[1], results=made[2]))
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.of in self.plans:
            number = self.plans[node.of].number(node.of, node.number)
            return ir.intern(replace(node, of=self.node(node.of), number=number))  # type: ignore[arg-type]
        return super()._one(node)
