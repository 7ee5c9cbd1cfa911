"""Long sums in parts, where few programs would run over all of them while most of a GPU waits.

    y[i, j] = sum[k](a[i, k] * b[k, j])    becomes    parts[p, i, j], the same over part p of the range of k,
                                           and then   y[i, j] = sum[p](parts[p, i, j])

The parts are always added up in the same order. In a loop whose later steps need no such sum, its parts are kept for
all steps, and one kernel after the loop adds up those of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep
from dslc.passes.narrow import HALVES
from dslc.schedule.form import AddUp, Afterwards, Kernel, Loop, Member, Split, Step, all_reads, based
from dslc.schedule.target import Target
from dslc.sizes import Size

#: into how many parts a sum is taken at most
MOST_PARTS = 16
#: with fewer parts than this, a second kernel costs more than it saves
LEAST_PARTS = 4


def parts_for(programs: int, busy: int) -> int:
    """How many parts make enough programs of a few; 1 where there are enough.

    >>> [parts_for(n, 256) for n in (1, 16, 40, 128)]
    [16, 16, 4, 1]
    """
    count = MOST_PARTS
    while count > 1 and programs * count > busy:
        count //= 2
    return count if count >= LEAST_PARTS else 1


def split(kernel: Kernel, programs: int, name: Callable[[ir.Node], str], target: Target) -> Split | None:
    """A kernel of so many programs in parts, if it reduces long axes and has enough of them to gain by it.

    `name` says what a member is called.
    """
    count = parts_for(programs, target.programs)
    reductions = {n: m for n, m in kernel.members.items() if m.node.op is not None}
    ranges = [d.inner for d in kernel.dots] if kernel.kind == "dot" else [kernel.columns]
    if count == 1 or any(target.holds([kernel.sizes[v] for v in variables]) for variables in ranges):
        return None
    if any(m.node.op not in ("sum", "max", "min") for m in reductions.values()):
        return None
    reads = {s.tensor for m in reductions.values() for s in ir.scalars(m.body) if isinstance(s, ir.Read)}
    if reads & kernel.members.keys():
        return None
    if kernel.kind == "rows" and any(set(m.axes) & set(kernel.columns) for m in kernel.members.values()):
        return None
    place = len(kernel.sizes)
    parts = {
        n: ir.intern(ir.Input(f"{name(n)}_parts", f"part of {id(n)}", summed_in(m.node.dtype), (count, *m.node.shape)))
        for n, m in reductions.items()
    }
    read = {n: ir.read(parts[n], (ir.plain(place), *(ir.plain(v) for v in m.axes))) for n, m in reductions.items()}
    members = {
        n: replace(m, reduced=(place,), body=read[n]) if n in reductions else m for n, m in kernel.members.items()
    }
    rows = next(iter(reductions.values())).axes if kernel.kind == "dot" else kernel.rows
    second = Kernel("rows", [*kernel.sizes, count], rows, (place,), members=members, stored=list(kernel.stored))
    return Split(count, parts, replace(kernel, members=reductions, stored=[]), second)


def summed_in(dtype: str) -> str:
    """The dtype of a part of a sum: 16 bits are too few for one."""
    return "f32" if dtype in HALVES else dtype


def can_wait(made: Split, second: Kernel) -> bool:
    """Can the parts be added up after a loop? Yes, if nothing else of a step is needed for it."""
    known = {*made.parts.values(), *second.members}
    bodies = [m.body for m in second.members.values()]
    return not any(isinstance(s, ir.Read) and s.tensor not in known for body in bodies for s in ir.scalars(body))


def sums_afterwards(loop: Loop) -> list[Afterwards]:
    """The sums of a loop that are taken in parts, and that no step needs: their parts are added up after it."""
    scan = loop.scan
    read = {x for s in loop.steps for x in all_reads(s)} | set(scan.carries)
    found: list[Afterwards] = []
    for kernel in (s for s in loop.steps if isinstance(s, Kernel)):
        kept = set(kernel.stored)
        if kept & read or not kept <= set(scan.results) or any(is_history(scan, x) for x in kept):
            continue
        made = kernel.split
        if made is not None and made.second is not None and can_wait(made, made.second):
            kernel.split = replace(made, second=None)
            found.append(for_all_steps(made, made.second, scan.length))
    return found


def added_up(steps: Sequence[Step]) -> list[Step]:
    """The same steps, with those that add up the parts of sums: as late as can be, so that one launch does many."""
    found: list[Step] = []
    late: list[Kernel] = []
    waiting: set[object] = set()
    for step in steps:
        if late and any(placed(a) in waiting for a in all_reads(step)):
            found.append(AddUp(late))
            late, waiting = [], set()
        found.append(step)
        if isinstance(step, Loop):
            step.steps = added_up(step.steps)
            for later in step.afterwards:
                late.append(later.kernel)
                waiting |= {part_of(step.scan, k) for k, x in enumerate(step.scan.results) if x in later.results}
        elif isinstance(step, Kernel) and step.split is not None and step.split.second is not None:
            late.append(step.split.second)
            waiting.update(step.split.second.stored)
    return [*found, AddUp(late)] if late else found


def part_of(scan: ir.Scan, number: int) -> ir.Part:
    """A value of a scan: all values of a result, or the last one of what it carries."""
    value = (*scan.results, *scan.carries)[number]
    shape = (scan.length, *value.shape) if number < len(scan.results) else value.shape
    return ir.intern(ir.Part(scan, number, value.dtype, shape))


def placed(node: ir.Node) -> ir.Node:
    """The value that a step leaves in memory where this one lies."""
    node = based(node)
    if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
        return part_of(node.of, node.number)
    return node


def carried(scan: ir.Scan) -> dict[int, ir.Step]:
    """The carried values that a scan reads, by their places."""
    inner, _ = ir.inside(scan)
    return {x.place: x for x in inner if isinstance(x, ir.Step) and x.scan == scan.number and x.kind == "carry"}


def histories(scan: ir.Scan) -> dict[int, ir.Step]:
    """The carried values whose history a scan keeps."""
    return {k: x for k, x in carried(scan).items() if x in scan.results}


def is_history(scan: ir.Scan, result: ir.Tensor) -> bool:
    """Does a result lie in the history of a carried value?"""
    return any(result in (x, scan.carries[k]) for k, x in histories(scan).items())


def for_all_steps(made: Split, second: Kernel, length: Size) -> Afterwards:
    """The second kernel for all steps at once."""
    step = len(second.sizes)
    lead = (ir.plain(step),)
    parts = {n: ir.intern(ir.Input(x.name, x.role, x.dtype, (length, *x.shape))) for n, x in made.parts.items()}
    known: dict[ir.Node, ir.Tensor] = {made.parts[n]: parts[n] for n in parts}
    members: dict[ir.Node, Member] = {}
    results: dict[ir.Node, ir.Comp] = {}
    for old, m in second.members.items():
        change = Change(None, tensors=lambda t: (known[t], lead) if t in known else None)
        body = change.scalar(m.body)
        axes = (step, *m.axes)
        own = Change({v: keep(k) for k, v in enumerate((*axes, *m.reduced))}).scalar(body)
        reduced = tuple(second.sizes[v] for v in m.reduced)
        node = m.node
        new = ir.Comp((length, *node.shape), reduced, node.op, own, node.dtype, node.name, node.span)
        results[old] = known[old] = new = ir.intern(new)
        members[new] = Member(new, axes, m.reduced, body)
    stored = [results[n] for n in second.stored]
    rows = (step, *second.rows)
    return Afterwards(
        made, parts, Kernel("rows", [*second.sizes, length], rows, second.columns, (), members, stored), results
    )
