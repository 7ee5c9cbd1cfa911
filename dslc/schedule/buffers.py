"""Where values lie whose memory a library gives and takes back: in buffers of their own, or written over one another.

    Slot      a buffer; what is written over a value that dies there has the same one
    Entry     one of the values in a buffer that has those of all steps of a loop

A carried value whose history is kept has one buffer with a place more than there are steps: a step finds it at one
place and writes the next value beside it, so that nothing is copied. Other carried values have two buffers: the one
that a step reads, and the next one, which takes its name.

A buffer is given back after its last reader if it is large beside the others, and only where memory is asked for
afterwards: what a reader of the code sees are few lines that free several buffers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.schedule.form import AddUp, Call, Kernel, Loop, Recurrence, Step, reads_of, walked
from dslc.schedule.lives import Lives, Loops
from dslc.schedule.plan import BYTES, Entry, Home, Kept, Move, Plan, Shape, Slot
from dslc.schedule.split import carried, histories, is_history, part_of, placed
from dslc.sizes import about

#: a buffer is large if it has at least this part of the bytes of the largest
LARGE = 1 / 16
#: threads that run as one, at most: a tile of fewer entries than threads is held by several of them
LANES = 64
#: what a size that is not known is taken to be
UNKNOWN = 256
#: lines that give memory back are joined where that costs no more of it than this
SLACK = 1.02


@dataclass
class Planner:
    plan: Plan
    #: how often a value is read
    uses: Counter[ir.Node]
    lives: Lives = field(default_factory=Lives)
    #: buffers that keep a value of each step: of what is made in a loop, and of what a loop begins with
    entries: dict[ir.Node, int] = field(default_factory=dict)
    #: histories that begin before their loop
    begun: dict[tuple[ir.Scan, int], int] = field(default_factory=dict)
    #: buffers that others than their own steps know by name
    shared: set[int] = field(default_factory=set)
    #: buffers with the values of all steps of a loop
    stacks: set[int] = field(default_factory=set)
    #: the steps by their moments, and those of each loop
    moments: dict[int, Step] = field(default_factory=dict)
    lists: dict[Loops, Sequence[Step]] = field(default_factory=dict)

    def slot(self, shape: Shape, dtype: str, now: int, loops: Loops) -> int:
        """A new buffer."""
        self.plan.kinds.append((shape, dtype))
        self.plan.slots.append([])
        number = len(self.plan.kinds) - 1
        self.lives.computed(number, now, loops)
        return number


def buffers(steps: Sequence[Step], results: Mapping[str, ir.Node], kept: Collection[str] = ()) -> Plan:
    """Where the values of a schedule lie; `results` are never given back.

    What an External with one of the names `kept` gives lies in memory of the caller of that name.
    """
    everything = [x for step in walked(steps) for x in reads(step)]
    planner = Planner(Plan(results=dict(results)), Counter(map(placed, (*everything, *results.values()))))
    _steps(planner, steps, (), kept)
    end = planner.lives.time
    for node in results.values():
        _read(planner, node, end, ())
    _over(planner)
    _freed(planner, steps)
    return planner.plan


def made(step: Step) -> list[ir.Tensor]:
    """The values that a step leaves in memory; a loop leaves none beside those of its steps."""
    match step:
        case Kernel():
            return [*step.split.parts.values()] if step.split is not None else [*step.stored]
        case AddUp():
            return [x for kernel in step.kernels for x in kernel.stored]
        case Recurrence(scan=scan):
            count = len(scan.results)
            lasts = (part_of(scan, count + k) for k in range(len(scan.carries)) if count + k in step.read)
            return [*(part_of(scan, k) for k in range(count)), *lasts]
        case Call(node=ir.Scatter() as scatter):
            return [scatter]
        case Call(node=ir.Along() | ir.External() as node):
            values = zip(node.dtypes, node.shapes, strict=True)
            return [ir.intern(ir.Part(node, k, *x, node.name, node.span)) for k, x in enumerate(values)]
    return []


def reads(step: Step) -> list[ir.Node]:
    """What a step reads; of a loop what it begins with, and at the end of a pass."""
    if isinstance(step, Loop):
        return [*step.scan.starts, *step.scan.carries, *step.scan.results]
    return reads_of(step)


# ---- moments, lives and homes --------------------------------------------------------------------------------


def _steps(planner: Planner, steps: Sequence[Step], loops: Loops, kept: Collection[str]) -> None:
    begins = _begins(steps)
    planner.lists[loops] = steps
    for step in steps:
        now = planner.lives.time
        planner.lives.time += 1
        planner.moments[now] = step
        if isinstance(step, Loop):
            _loop(planner, step, now, loops, kept)
            continue
        for a in reads(step):
            _read(planner, a, now, loops)
        for node in made(step):
            if isinstance(node, ir.Part) and isinstance(node.of, ir.External) and node.of.op in kept:
                planner.plan.homes[node] = Kept(node.of.op)
                continue
            if node in begins:
                scan, place = begins[node]
                planner.entries[node] = planner.begun[scan, place] = _history(planner, scan, place, now, loops)
            _made(planner, node, now, loops)


def _begins(steps: Sequence[Step]) -> dict[ir.Node, tuple[ir.Scan, int]]:
    """Values of kernels with which loops begin that keep their histories: they are put there at once."""
    own = {x for s in steps if isinstance(s, Kernel) for x in s.stored}
    found: dict[ir.Node, tuple[ir.Scan, int]] = {}
    for loop in (s for s in steps if isinstance(s, Loop)):
        for k in histories(loop.scan):
            if loop.scan.starts[k] in own:
                found.setdefault(loop.scan.starts[k], (loop.scan, k))
    return found


def _history(planner: Planner, scan: ir.Scan, place: int, now: int, loops: Loops) -> int:
    value = carried(scan)[place]
    return planner.slot((scan.length + 1, *value.shape), value.dtype, now, loops)


def _made(planner: Planner, node: ir.Tensor, now: int, loops: Loops) -> None:
    """A home for a value: where a loop keeps those of all steps, or a buffer."""
    home: Home
    if node in planner.entries:
        number = planner.entries.pop(node)
        home = Entry(number)
        planner.lives.read(number, now, loops)
    else:
        number = planner.slot(node.shape, node.dtype, now, loops)
        home = Slot(number)
    planner.plan.homes[node] = home
    planner.plan.slots[number].append(node)


def _read(planner: Planner, node: ir.Node, now: int, loops: Loops) -> None:
    """Note that the buffer of a value is read at a moment; what a loop carries is there until its end."""
    home = planner.plan.homes.get(planner.plan.same.get(placed(node), placed(node)))
    if isinstance(home, Slot | Entry):
        planner.lives.read(home.number, now, loops)


def _loop(planner: Planner, loop: Loop, now: int, loops: Loops, kept: Collection[str]) -> None:
    scan, plan = loop.scan, planner.plan
    end = planner.lives.begin(loop, now)
    kept_values = histories(scan)
    plan.moves[scan] = []
    own: list[int] = []
    for k, start in enumerate(scan.starts):
        move = Move()
        if k in kept_values:
            move.first = planner.begun.pop((scan, k), None)
            if move.first is None:
                move.first = _history(planner, scan, k, now, loops)
        else:
            home = plan.homes.get(placed(start))
            only = planner.uses[placed(start)] == 1 and placed(start) is start
            if isinstance(home, Slot) and only and planner.lives.around[home.number] == loops:
                move.first = home.number
            else:
                move.first = planner.slot(start.shape, start.dtype, now, loops)
                plan.slots[move.first].append((start.shape, start.dtype))
        _read(planner, start, now, loops)
        own.append(move.first)
        plan.moves[scan].append(move)
        last = part_of(scan, len(scan.results) + k)
        plan.homes[last] = Entry(move.first) if k in kept_values else Slot(move.first)
    planner.shared.update(own)
    for a in loop.afterwards:
        for node, sums in a.parts.items():
            own.append(planner.slot(sums.shape, sums.dtype, now, loops))
            plan.homes[sums] = Slot(own[-1])
            plan.slots[own[-1]].append(sums)
            planner.entries[a.split.parts[node]] = own[-1]
    later = {x: result for a in loop.afterwards for x, result in a.results.items()}
    stacks: dict[int, int] = {}
    for k, x in enumerate(scan.results):
        part = part_of(scan, k)
        place = next((j for j, y in kept_values.items() if x in (y, scan.carries[j])), None)
        if x in later:
            plan.same[part] = later[x]
            if part in planner.entries:
                planner.entries[later[x]] = planner.entries.pop(part)
        elif place is not None:
            plan.homes[part] = Slot(own[place])
        else:
            _made(planner, part, now, loops)
            home = plan.homes[part]
            assert isinstance(home, Slot | Entry)
            stacks[k] = home.number
            own.append(home.number)
    wanted = [(scan.carries[k], own[k], -1) for k in kept_values] + [(scan.results[k], n, k) for k, n in stacks.items()]
    plan.stacked[scan] = [(part_of(scan, k), x) for x, n, k in wanted if not _entered(planner, loop, x, n) and k >= 0]
    _steps(planner, loop.steps, (*loops, loop), kept)
    for x in (*scan.carries, *scan.results):
        _read(planner, x, end, (*loops, loop))
    for k, carry in enumerate(scan.carries):
        home = plan.homes.get(placed(carry))
        if isinstance(home, Slot) and k not in kept_values:
            plan.moves[scan][k].second = home.number
            planner.shared.add(home.number)
    planner.stacks |= {*own} - {move.first for move in plan.moves[scan]} | {own[k] for k in kept_values}
    for number in own:
        planner.lives.read(number, end, loops)
    planner.lives.time = end + 1
    planner.moments[end] = loop


def _entered(planner: Planner, loop: Loop, node: ir.Tensor, number: int) -> bool:
    """Let a value be made where a loop keeps it, if a step of the loop makes it."""
    own: set[ir.Node] = {x for s in loop.steps if isinstance(s, Kernel) for x in s.stored}
    own |= {x for s in loop.steps if not isinstance(s, Kernel | AddUp) for x in made(s) if isinstance(x, ir.Part)}
    for inner in (s.scan for s in loop.steps if isinstance(s, Loop)):
        own |= {part_of(inner, k) for k, x in enumerate(inner.results) if not is_history(inner, x)}
    maker = placed(node)
    if isinstance(maker, ir.Part) and isinstance(maker.of, ir.Scan) and maker.number >= len(maker.of.results):
        return False
    if isinstance(node, ir.Reshape) or maker not in own or maker in planner.entries:
        return False
    planner.entries[maker] = number
    return True


# ---- one over another ----------------------------------------------------------------------------------------


def _over(planner: Planner) -> None:
    """Results of kernels are written over values that die there."""
    plan, lives = planner.plan, planner.lives.lives
    kernels = [(now, step) for now, step in sorted(planner.moments.items()) if isinstance(step, Kernel)]
    given = {placed(x) for x in plan.results.values()}
    for now, kernel in kernels:
        for node in kernel.stored:
            home = plan.homes.get(node)
            if kernel.split is not None or not isinstance(home, Slot) or home.number in planner.shared:
                continue
            for old in dying(planner, kernel, now, home.number):
                if old not in given and over(kernel, node, old):
                    slot = plan.homes[old]
                    assert isinstance(slot, Slot)
                    plan.homes[node] = slot
                    kernel.over.add(node)
                    plan.slots[slot.number].append(node)
                    plan.slots[home.number].clear()
                    lives[slot.number].last = lives.pop(home.number).last
                    break


def dying(planner: Planner, kernel: Kernel, now: int, number: int) -> list[ir.Comp]:
    """The values that a kernel reads as the last one, in buffers like this one."""
    lives, found = planner.lives, []
    for old in dict.fromkeys(reads_of(kernel)):
        home = planner.plan.homes.get(old)
        if not isinstance(home, Slot) or not isinstance(old, ir.Comp) or planner.plan.slots[home.number][-1] is not old:
            continue
        alike = planner.plan.kinds[home.number] == planner.plan.kinds[number] and home.number not in planner.shared
        if alike and lives.lives[home.number].last == now and lives.around[home.number] == lives.around[number]:
            found.append(old)
    return found


def over(kernel: Kernel, node: ir.Comp, old: ir.Comp) -> bool:
    """May a kernel write a value where it reads another one? Yes, if all its reads are at the place that is written
    then, or elsewhere in the same row, by the same program, and before that; and if no two threads have an entry."""
    members = list(kernel.members.values())
    axes = kernel.members[node].axes
    tile = kernel.tile
    if kernel.kind == "stream" or tile is None or {*axes} != {*kernel.space}:
        return False
    if tile.rows * tile.columns < LANES * tile.warps:
        return False
    later: set[ir.Node] = set()
    if kernel.runs:
        last = next(k for k, run in enumerate(kernel.runs) if any(m.node is node for m in run.members))
        later = {m.node for run in kernel.runs[last + 1 :] for m in run.members}
        if any(m.node.op is not None for run in kernel.runs[last:] for m in run.members):
            return False
    else:
        place = next(k for k, m in enumerate(members) if m.node is node)
        later = {m.node for m in members[place + 1 :]}
    for m in members:
        for s in (s for s in ir.scalars(m.body) if isinstance(s, ir.Read) and placed(s.tensor) is old):
            own = zip(map(plain_variable, s.places), axes, strict=False)
            near = all(a == b or (kernel.kind == "rows" and b in kernel.columns) for a, b in own)
            if s.tensor is not old or not near or m.node in later:
                return False
    return True


# ---- given back ----------------------------------------------------------------------------------------------


def alive(plan: Plan, steps: Sequence[Step]) -> Iterator[tuple[Step, list[int], list[int]]]:
    """The steps in order with the buffers that each asks for, and those that are gone after it; of a loop, one pass."""
    stack: list[tuple[Step, bool]] = [(step, False) for step in reversed(steps)]
    while stack:
        step, ended = stack.pop()
        asked = [] if ended else plan.made.get(step, [])
        if not isinstance(step, Loop) or ended:
            # what a loop carries on has the buffer of the value before now
            moved = [m.second for m in plan.moves[step.scan] if m.second is not None] if ended else []  # type: ignore[union-attr]
            yield step, asked, [*moved, *plan.freed.get(step, ())]
            continue
        yield step, asked, []
        stack += [(step, True), *((x, False) for x in reversed(step.steps))]


def largest(plan: Plan, steps: Sequence[Step], sizes: Sequence[float] = ()) -> list[int]:
    """The buffers that are there together when most memory is in use; `sizes` are their bytes, or about so."""
    sizes = sizes or [about_bytes(*kind) for kind in plan.kinds]
    now: dict[int, None] = {}
    found: list[int] = []
    most = total = 0.0
    for _, asked, gone in alive(plan, steps):
        now |= dict.fromkeys(asked)
        total += sum(sizes[n] for n in asked)
        if total > most:
            most, found = total, [*now]
        total -= sum(sizes[n] for n in gone if n in now)
        now = {n: None for n in now if n not in gone}
    return found


def about_bytes(shape: Shape, dtype: str) -> float:
    """About how many bytes a buffer has, where sizes are such that memory matters."""
    return BYTES.get(dtype, 4.0) * about(shape, UNKNOWN)


def _freed(planner: Planner, steps: Sequence[Step]) -> None:
    """After which steps buffers are given back: as soon as they can be, and in fewer lines where that is as good."""
    plan, lives = planner.plan, planner.lives
    # of a stack the part of one step counts: the same lines serve any number of layers
    kinds = enumerate(plan.kinds)
    sizes = [about_bytes(shape[1:] if n in planner.stacks else shape, dtype) for n, (shape, dtype) in kinds]
    given = {plan.same.get(placed(x), placed(x)) for x in plan.results.values()}
    results = {home.number for x in given if isinstance(home := plan.homes.get(x), Slot | Entry)}
    for number, life in lives.lives.items():
        assert isinstance(number, int)
        plan.made.setdefault(planner.moments[life.first], []).append(number)
        last = planner.moments.get(life.last)  # a result is there in the end
        if last is None or last not in planner.lists[lives.around[number]]:
            continue
        if number not in results and sizes[number] >= LARGE * max(sizes):
            plan.freed.setdefault(last, []).append(number)
    # all that is asked for beside it, or what comes later, decides whether a line is worth it
    least = sum(sizes[n] for n in largest(plan, steps, sizes))
    for loops, own in planner.lists.items():
        for step, after in pairwise(own):
            numbers, later = plan.freed.pop(step, []), plan.freed.pop(after, [])
            if not numbers:
                plan.freed[after] = later
                continue
            plan.freed[after] = [*numbers, *later]
            if sum(sizes[n] for n in largest(plan, steps, sizes)) > SLACK * least:
                plan.freed[step], plan.freed[after] = numbers, later
        if not loops and own:
            plan.freed.pop(own[-1], None)
    plan.freed = {step: numbers for step, numbers in plan.freed.items() if numbers}
    dropped = {n for numbers in plan.freed.values() for n in numbers}
    for move in (m for moves in plan.moves.values() for m in moves):
        move.dropped = move.first in dropped
