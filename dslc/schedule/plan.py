"""Where values lie: in memory of the caller, in slots of a workspace that values share one after another, or nowhere.

A value that only members of its own pass read stays in registers. The slots are found by lifetimes: a value takes one
that nothing needs any more when the step begins that computes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.passes.tiles import LONGEST_ROW
from dslc.schedule.form import (
    Call,
    Loop,
    Pass,
    Region,
    Step,
    all_reads,
    based,
    nodes_of,
    reads_of,
    resolved,
)  # fmt: skip
from dslc.schedule.group import is_here
from dslc.schedule.in_place import overwritten
from dslc.schedule.lives import Lives
from dslc.sizes import Size, about, at_most

#: bytes of a number; whole numbers are kept in 64 bits
BYTES = {"bool": 1, "i32": 8, "i64": 8, "f64": 8}

Shape = tuple[Size, ...]


@dataclass(frozen=True)
class Result:
    """Memory of the caller, for the result of this name."""

    name: str


@dataclass(frozen=True)
class Slot:
    """A part of the workspace."""

    number: int


@dataclass(frozen=True)
class Entry:
    """A value for one step in a buffer that has those of all steps."""

    number: int


@dataclass(frozen=True, eq=False)
class Stacked:
    """The entry for this step in the stack of all results of a scan."""

    part: ir.Part


@dataclass(frozen=True, eq=False)
class Carry:
    """Where a carried value lies changes from step to step: a pointer tells."""

    scan: ir.Scan
    number: int


@dataclass(frozen=True)
class Row:
    """A scratch buffer for one row of a region, which its next row takes over: it stays in the cache."""


@dataclass(frozen=True)
class Block:
    """A scratch buffer for the rows of a region that a thread is at work on: its next rows take it over."""


@dataclass(frozen=True)
class Kept:
    """Memory of the caller that keeps what a step of a sequence puts into it, by the name of the entry."""

    name: str


Home = Result | Slot | Entry | Stacked | Carry | Row | Block | Kept


@dataclass(eq=False)
class Move:
    """What a loop carries on: the next value lies in `slot`, which changes places with the one before; or elsewhere."""

    #: what starts the loop is copied to this slot; None: the pointer starts at what it starts with
    first: int | None = None
    #: where the next value is written; None: it stays where it is, and the pointer moves there
    second: int | None = None
    #: must it be copied there, since it has another home?
    copied: bool = False
    #: does the next value's own name go at the end of a pass?
    dropped: bool = False


@dataclass(eq=False)
class Plan:
    """Homes of all values that have one, and what is copied."""

    homes: dict[ir.Node, Home] = field(default_factory=dict)
    #: the values in each slot, by shape and dtype, and their names
    slots: list[list[ir.Node | tuple[Shape, str]]] = field(default_factory=list)
    #: results that are copied in the end, since their value has another home
    copies: dict[str, ir.Node] = field(default_factory=dict)
    #: results of scans that are copied to their stack at the end of a step
    stacked: dict[ir.Scan, list[tuple[ir.Part, ir.Node]]] = field(default_factory=dict)
    moves: dict[ir.Scan, list[Move]] = field(default_factory=dict)
    #: where slots are buffers of a library: what they are, those that a step asks for, those given back after it
    kinds: list[tuple[Shape, str]] = field(default_factory=list)
    made: dict[Step, list[int]] = field(default_factory=dict)
    freed: dict[Step, list[int]] = field(default_factory=dict)
    #: what is never given back, and values that lie where another one does
    results: dict[str, ir.Node] = field(default_factory=dict)
    same: dict[ir.Node, ir.Node] = field(default_factory=dict)


@dataclass
class Schedule:
    """A program after the passes of a target, its steps in order, and where their values lie.

    Without a plan each value that others read has memory of its own.
    """

    results: Mapping[str, ir.Tensor]
    steps: list[Step]
    plan: Plan | None = None


@dataclass
class Planner:
    plan: Plan
    results: Mapping[str, ir.Node]
    lives: Lives = field(default_factory=Lives)
    parts: dict[ir.Node, dict[int, ir.Part]] = field(default_factory=dict)
    scans: dict[int, Loop] = field(default_factory=dict)
    #: the regions that compute values which others read
    regions: dict[ir.Node, Region] = field(default_factory=dict)
    #: shapes and dtypes of what has no node: copies of carried values
    kept: dict[object, tuple[Shape, str]] = field(default_factory=dict)


def planned(
    steps: list[Step], results: Mapping[str, ir.Node], kept: Collection[str] = (), apart: Mapping[str, int] = {}
) -> Plan:
    """Homes for all values of a schedule; `results` are what the caller gets, by name.

    What an External with one of the names `kept` gives lies in memory of the caller of that name. `apart` tells in how
    many loops each pass has an array of its own for a result, as layers have: such a result is not one piece of memory.
    """
    planner = Planner(Plan(), results)
    for node in _everything(steps, results):
        if isinstance(node, ir.Part):
            planner.parts.setdefault(node.of, {})[node.number] = node
            if isinstance(node.of, ir.External) and node.of.op in kept:
                planner.plan.homes[node] = Kept(node.of.op)
    wanted: dict[ir.Node, str] = {}
    for name, node in results.items():
        at = resolved(node)
        if at in wanted or not _is_computed(at) or not _has_place(at, apart.get(name, 0)):
            planner.plan.copies[name] = at
        else:
            wanted[at] = name
    for node, name in wanted.items():
        planner.plan.homes[node] = Result(name)
    _homes(planner, steps, ())
    for node, name in wanted.items():
        if planner.plan.homes[node] != Result(name):
            planner.plan.copies[name] = node
    end = planner.lives.time
    for node in planner.plan.copies.values():
        _read(planner, based(node), end, ())
    _slots(planner)
    return planner.plan


def _is_computed(node: ir.Node) -> bool:
    """Can a value be computed right where the caller wants it?"""
    if node.dtype in ("i32", "f16", "bf16"):  # type: ignore[union-attr]
        return False  # computed in wider numbers
    if isinstance(node, ir.Part):
        return not isinstance(node.of, ir.Scan) or node.number < len(node.of.results)
    return isinstance(node, ir.Comp | ir.Scatter)


def _has_place(node: ir.Node, loops: int) -> bool:
    """Can a value of so many loops of layers be written where it belongs? One that a loop stacks, pass by pass."""
    return loops == 0 or (loops == 1 and isinstance(node, ir.Part) and isinstance(node.of, ir.Scan))


def _everything(steps: list[Step], results: Mapping[str, ir.Node]) -> Iterable[ir.Node]:
    found: dict[ir.Node, None] = dict.fromkeys(results.values())
    for step in reversed(steps):
        found.update(dict.fromkeys(all_reads(step)))
    for node in list(found):
        while isinstance(node, ir.Reshape) or (isinstance(node, ir.Part) and isinstance(node.of, ir.Custom)):
            node = node.of if isinstance(node, ir.Reshape) else resolved(node)
            found[node] = None
    return found


def stored(region: Region, outside: set[ir.Node]) -> list[ir.Comp]:
    """The members of a region that need memory: what others read, and what other items of the region do.

    Members of one pass see one another in registers, and so do the passes of one loop over rows what has one value in
    each row.
    """
    found: dict[ir.Node, None] = {x: None for x in region.nodes if x in outside}
    rows = 0
    where: dict[ir.Node, tuple[int, int]] = {}
    for k, item in enumerate(region.items):
        alone = not isinstance(item, Pass) or item.kind == "columns"
        rows += alone
        nodes = item.members if isinstance(item, Pass) else [item.node]
        for node in nodes:
            for s in ir.scalars(node.body):
                if isinstance(s, ir.Read):
                    tensor = based(s.tensor)
                    if tensor in where and not (
                        s.tensor is tensor and _seen(s, where[tensor], (k, rows), region.depth)
                    ):
                        found[tensor] = None
            where[node] = k, rows
        if not isinstance(item, Pass) or item.kind != "map":
            found.update(dict.fromkeys(nodes))
            rows += alone
    return [x for x in region.nodes if x in found]


def in_rows(region: Region) -> set[ir.Node]:
    """The members of a region that only passes in one loop over rows read, and whose rows are short."""
    rows = 0
    where: dict[ir.Node, int] = {}
    found: dict[ir.Node, bool] = {}
    for item in region.items:
        alone = not isinstance(item, Pass) or item.kind == "columns"
        rows += alone
        for node in item.members if isinstance(item, Pass) else [item.node]:
            for s in ir.scalars(node.body):
                if isinstance(s, ir.Read) and (tensor := based(s.tensor)) in where:
                    found[tensor] = found[tensor] and s.tensor is tensor and where[tensor] == rows and not alone
            where[node] = rows
            sizes = node.shape[region.depth :]
            short = at_most(LONGEST_ROW, sizes)
            found[node] = short and bool(sizes) and region.depth > 0 and not alone
        rows += alone
    return {node for node, local in found.items() if local}


def _seen(s: ir.Read, made: tuple[int, int], now: tuple[int, int], depth: int) -> bool:
    """Is the value of a read in a register, which an item made in a loop over rows?"""
    same_pass, same_rows = made[0] == now[0], made[1] == now[1]
    return is_here(s) and (same_pass or (same_rows and len(s.places) == depth))


def _homes(planner: Planner, steps: list[Step], loops: tuple[Loop, ...]) -> None:
    """Moments, lives and homes of what some steps compute."""
    readers: dict[ir.Node, set[Step | None]] = {}
    for step in steps:
        for a in all_reads(step):
            readers.setdefault(based(a), set()).add(step)
    ends = [*planner.results.values(), *((*loops[-1].scan.carries, *loops[-1].scan.results) if loops else ())]
    for x in ends:
        readers.setdefault(based(x), set()).add(None)
    for step in steps:
        now = planner.lives.time
        planner.lives.time += 1
        for a in reads_of(step):
            _read(planner, based(a), now, loops)
        match step:
            case Region():
                outside: set[ir.Node] = {x for x in step.nodes if readers.get(x, set()) - {step}}
                local = in_rows(step) - outside
                for node in stored(step, outside):
                    if step.depth and node not in outside and node not in planner.plan.homes:
                        planner.plan.homes[node] = Row() if node in local else Block()
                    else:
                        planner.regions[node] = step
                        _computed(planner, node, now, loops)
            case Call():
                for value in _values(planner, step.node):
                    _computed(planner, value, now, loops)
            case Loop():
                _loop(planner, step, now, loops)


def _values(planner: Planner, node: ir.Node) -> list[ir.Node]:
    return [node] if isinstance(node, ir.Scatter) else [*planner.parts.get(node, {}).values()]


def _computed(planner: Planner, node: ir.Node, now: int, loops: tuple[Loop, ...]) -> None:
    planner.lives.computed(node, now, loops)
    planner.plan.homes.setdefault(node, Slot(-1))


def _read(planner: Planner, node: ir.Node, now: int, loops: tuple[Loop, ...]) -> None:
    """Note that a value is read at a moment, and all where its memory may be."""
    if isinstance(node, ir.Step) or node not in planner.lives.around:
        return
    now = planner.lives.read(node, now, loops)
    if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.number >= len(node.of.results):
        j = node.number - len(node.of.results)
        for key in (("first", node.of, j), ("second", node.of, j)):
            planner.lives.until(key, now)
        # the pointer may lead to the start, or into a stack
        _read(planner, based(node.of.starts[j]), now, loops)
        target = planner.plan.homes.get(resolved(node.of.carries[j]))
        if isinstance(target, Stacked):
            planner.lives.until(target.part, now)


def _loop(planner: Planner, loop: Loop, now: int, loops: tuple[Loop, ...]) -> None:
    scan, plan = loop.scan, planner.plan
    end = planner.lives.begin(loop, now)
    parts = planner.parts.get(scan, {})
    inner = {x for step in loop.steps for x in nodes_of(step)}
    inner |= {x for step in loop.steps if isinstance(step, Call) for x in _values(planner, step.node)}
    plan.stacked[scan] = []
    for k, result in enumerate(scan.results):
        if k not in parts:
            continue
        _computed(planner, parts[k], now, loops)
        planner.lives.until(parts[k], end)
        at = resolved(result)
        if at in inner and isinstance(at, ir.Comp | ir.Scatter) and at not in plan.homes and at.dtype != "i32":
            plan.homes[at] = Stacked(parts[k])
        else:
            plan.stacked[scan].append((parts[k], at))
    plan.moves[scan] = []
    for j, carry in enumerate(scan.carries):
        at, move = resolved(carry), Move()
        own = at in inner and isinstance(at, ir.Comp | ir.Scatter)
        if own and isinstance(plan.homes.get(at), Stacked):
            pass
        elif isinstance(at, ir.Step) and at.scan == scan.number and at.kind == "carry" and at.place == j:
            pass  # it never changes
        else:
            move.first, move.second = 0, 0
            for key in (("first", scan, j), ("second", scan, j)):
                planner.kept[key] = carry.shape, carry.dtype
                planner.lives.computed(key, now, loops)
                planner.lives.until(key, end)
            move.copied = not (own and at not in plan.homes)
            if not move.copied:
                plan.homes[at] = Carry(scan, j)
        _read(planner, based(scan.starts[j]), end, loops)
        plan.moves[scan].append(move)
        part = parts.get(len(scan.results) + j)
        if part is not None:
            plan.homes[part] = Carry(scan, j) if not isinstance(plan.homes.get(part), Result) else plan.homes[part]
            plan.homes[part] = Carry(scan, j)
            if part not in planner.lives.lives:
                planner.lives.computed(part, now, loops)
                planner.lives.until(part, end)
    _homes(planner, loop.steps, (*loops, loop))
    for _, at in plan.stacked[scan]:
        _read(planner, based(at), end, (*loops, loop))
    for carry in scan.carries:
        _read(planner, based(carry), end, (*loops, loop))
    assert planner.lives.time <= end
    planner.lives.time = end + 1


def _slots(planner: Planner) -> None:
    """Slots for all values that need one, by their lives: what nothing reads any more gives its slot away."""
    plan = planner.plan
    keys = [x for x, home in plan.homes.items() if home == Slot(-1)]
    keys += list(planner.kept)  # type: ignore[arg-type]
    free: list[int] = []  # the moment from which on each slot is free
    sizes: list[float] = []
    owners: list[object] = []  # whose value each slot holds
    for key in sorted(keys, key=lambda x: planner.lives.lives[x].first):
        life = planner.lives.lives[key]
        shape, dtype = planner.kept.get(key) or (key.shape, key.dtype)  # type: ignore[union-attr]
        size = BYTES.get(dtype, 4.0) * about(shape)
        fitting = [k for k, when in enumerate(free) if when < life.first]
        if key in planner.regions:
            over = overwritten(planner.regions[key], key)
            fitting = [k for k, when in enumerate(free) if when == life.first and owners[k] in over] or fitting
        if fitting:
            slot = min(fitting, key=lambda k: (abs(sizes[k] - size), k))
            free[slot], sizes[slot], owners[slot] = life.last, max(sizes[slot], size), key
        else:
            slot = len(free)
            free.append(life.last)
            sizes.append(size)
            owners.append(key)
            plan.slots.append([])
        plan.slots[slot].append(key if key not in planner.kept else (shape, dtype))
        if key in planner.kept:
            kind, scan, j = key  # type: ignore[misc]
            setattr(plan.moves[scan][j], kind, slot)
        else:
            plan.homes[key] = Slot(slot)
