"""Is a schedule sound, and its plan? Asked by tests, of a run in which each slot remembers whose value it holds.

A loop is run twice, so that what one pass leaves to the next is looked at too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.schedule.buffers import made, over
from dslc.schedule.form import AddUp, Call, Kernel, Loop, Pass, Recurrence, Region, Step, based, reads_of, resolved
from dslc.schedule.in_place import overwritten
from dslc.schedule.plan import Block, Carry, Entry, Plan, Result, Row, Slot, Stacked
from dslc.schedule.split import part_of, placed


class Unsound(Exception):
    """A schedule or a plan that computes something else than the program."""


def verify(steps: list[Step], plan: Plan) -> None:
    """Raise Unsound where a value is read that is not there, or where two regions or pieces get in each other's way."""
    names = [home.name for home in plan.homes.values() if isinstance(home, Result)]
    if len(set(names)) < len(names):
        raise Unsound(f"two values are the result {next(x for x in names if names.count(x) > 1)}")
    run = Buffers(plan) if plan.kinds else Run(plan)
    run.steps(steps)
    for name, node in (*plan.copies.items(), *plan.results.items()):
        run.read(based(node), f"the result {name}")


#: what a slot holds: a value, or the carried value of a loop
Owner = ir.Node | tuple[ir.Scan, int]


@dataclass
class Run:
    """What is in memory at a moment."""

    plan: Plan
    slots: dict[int, Owner] = field(default_factory=dict)
    #: values that are there
    there: set[ir.Node] = field(default_factory=set)
    #: where carried values lie now and next: a slot, or the memory of a value
    now: dict[tuple[ir.Scan, int], int | ir.Node] = field(default_factory=dict)
    later: dict[tuple[ir.Scan, int], int] = field(default_factory=dict)
    scans: dict[int, ir.Scan] = field(default_factory=dict)

    def steps(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case Region():
                    self.region(step)
                case Call():
                    self.together(step, list(map(based, reads_of(step))), self.values(step.node), show(step.node))
                case Kernel():
                    self.kernel(step)
                case AddUp():
                    self.together(step, [based(a) for a in reads_of(step)], made(step), show(made(step)[0]))
                case Recurrence():
                    self.recurrence(step)
                case Loop():
                    self.loop(step)

    def values(self, node: ir.Node) -> list[ir.Node]:
        return [x for x in self.plan.homes if x is node or (isinstance(x, ir.Part) and x.of is node)]

    # ---- regions

    def region(self, region: Region) -> None:
        members = set(region.nodes)
        seen: set[ir.Node] = set()
        rows: set[ir.Node] = set()
        for item in region.items:
            if not isinstance(item, Pass) or item.kind == "columns":
                rows = set()  # the loop over rows ends here
            for node in item.members if isinstance(item, Pass) else [item.node]:
                for read in reads(node):
                    if based(read.tensor) in members:
                        self.inside(node, read, region, seen)
                        row = isinstance(self.plan.homes.get(based(read.tensor)), Row)
                        if row and based(read.tensor) not in rows:
                            raise Unsound(f"{show(node)} reads a row of {show(based(read.tensor))} that is gone")
                seen.add(node)
                rows.add(node)
        if seen != members:
            raise Unsound(f"a region does not compute {show(next(iter(members - seen)))}")
        outside = [x for x in map(based, reads_of(region)) if x not in members]
        written = [x for x in region.nodes if x in self.plan.homes]
        self.together(region, outside, written, show(region.nodes[0]))
        self.there |= members

    def inside(self, node: ir.Comp, read: ir.Read, region: Region, seen: set[ir.Node]) -> None:
        """A member reads what is there, where it is itself along the parallel axes."""
        if based(read.tensor) not in seen:
            raise Unsound(f"{show(node)} reads {show(based(read.tensor))} before it is computed")
        tensor: ir.Node = resolved(read.tensor)
        while isinstance(tensor, ir.Reshape):
            inner = resolved(tensor.of)
            if tensor.shape[: region.depth] != inner.shape[: region.depth]:  # type: ignore[union-attr]
                raise Unsound(f"{show(node)} reads {show(inner)} of its region in another shape")
            tensor = inner
        if any(read.places[k] is not ir.plain(k) for k in range(region.depth)):
            raise Unsound(f"{show(node)} reads {show(tensor)} of its region at another place of the parallel axes")

    # ---- kernels

    def kernel(self, kernel: Kernel) -> None:
        """Members read what is there, or what the kernel has computed before them, at their own place."""
        runs = [run.members for run in kernel.runs] or [[m] for m in kernel.members.values()]
        if sorted(id(m.node) for run in runs for m in run) != sorted(id(m.node) for m in kernel.members.values()):
            raise Unsound(f"the runs of a kernel are not all of its members: {show(next(iter(kernel.members)))}")
        own = {**kernel.members, **kernel.tiles}
        found: list[ir.Node] = []
        seen = set(kernel.tiles)
        for number, run in enumerate(runs):
            rescaled = kernel.runs[number].rescaled if kernel.runs else {}
            for m in run:
                for read in (s for s in ir.scalars(m.body) if isinstance(s, ir.Read)):
                    if read.tensor not in own:
                        found.append(based(read.tensor))
                    elif tuple(map(plain_variable, read.places)) != own[read.tensor].axes:
                        raise Unsound(f"{show(m.node)} reads {show(read.tensor)} of its kernel at another place")
                    elif read.tensor not in seen and (
                        m.node not in rescaled or rescaled[m.node].peak.node is not read.tensor
                    ):
                        raise Unsound(f"{show(m.node)} reads {show(read.tensor)} before it is computed")
                if m.node.op is None:
                    seen.add(m.node)
            seen.update(m.node for m in run)
        tiles = (a for tile in kernel.tiles for a in ir.arguments(tile))
        found += (based(a) for a in tiles if a not in own)
        if not {*kernel.stored} <= kernel.members.keys():
            raise Unsound("a kernel stores what it does not compute")
        self.together(kernel, found, made(kernel), show(next(iter(kernel.members))))

    def recurrence(self, step: Recurrence) -> None:
        """What a scan reads beside its own values is there before it."""
        self.scans[step.scan.number] = step.scan
        for j, start in enumerate(step.scan.starts):
            self.now[step.scan, j] = based(start)
        given = [based(a) for a in reads_of(step) if a not in step.members]
        self.together(step, given, self.values(step.scan), show(step.scan))

    # ---- memory

    def together(self, step: Step, given: Sequence[ir.Node], written: Sequence[ir.Node], name: str) -> None:
        """What a step reads is there, and lies nowhere where the step writes."""
        held = {slot: x for x in given for slot in self.read(x, name)}
        taken = {*held}
        for x in written:
            home = self.plan.homes[x]
            if isinstance(home, Carry) and (home.scan, home.number) not in self.later:
                self.there.add(x)  # the last value lies where the scan has left it
                continue
            slot = home.number if isinstance(home, Slot) else None
            owner: Owner = x
            if isinstance(home, Carry):
                owner = (home.scan, home.number)
                slot = self.later[owner]
            elif isinstance(home, Stacked):
                self.read(home.part, name)
            if slot is not None:
                over = overwritten(step, x) if isinstance(step, Region) and isinstance(home, Slot) else []
                if slot in taken and held.get(slot) not in over:
                    raise Unsound(f"{show(x)} is written to slot {slot}, which {name} needs for another value")
                taken.add(slot)
                held.pop(slot, None)
                self.slots[slot] = owner
            self.there.add(x)

    def read(self, node: ir.Node, reader: str) -> list[int]:
        """The slot that a value is read from, which must hold it."""
        if isinstance(node, ir.Input | ir.Const) or (isinstance(node, ir.Step) and node.kind != "carry"):
            return []
        if isinstance(node, ir.Step):
            return self.carried((self.scans[node.scan], node.place), reader)
        home = self.plan.homes.get(node)
        if node not in self.there or home is None:
            raise Unsound(f"{reader} reads {show(node)}, which is not in memory")
        match home:
            case Slot(number):
                if self.slots.get(number) is not node:
                    raise Unsound(f"{reader} reads {show(node)} from slot {number}, which holds {self.held(number)}")
                return [number]
            case Carry(scan, number) if isinstance(node, ir.Part):
                return self.carried((scan, number), reader)
            case Carry(scan, number):
                slot = self.later[scan, number]
                if self.slots.get(slot) != (scan, number):
                    raise Unsound(f"{reader} reads {show(node)} from slot {slot}, which holds {self.held(slot)}")
                return [slot]
            case Stacked(part):
                return self.read(part, reader)
            case Row() | Block():
                raise Unsound(f"{reader} reads {show(node)}, of which only its own region has some rows")
        return []

    def carried(self, key: tuple[ir.Scan, int], reader: str) -> list[int]:
        at = self.now[key]
        if not isinstance(at, int):
            return self.read(at, reader)
        if self.slots.get(at) != key:
            raise Unsound(f"{reader} reads a carried value from slot {at}, which holds {self.held(at)}")
        return [at]

    def held(self, slot: int) -> str:
        owner = self.slots.get(slot)
        return "nothing" if owner is None else "a carried value" if isinstance(owner, tuple) else show(owner)

    # ---- loops

    def loop(self, loop: Loop) -> None:
        scan, plan = loop.scan, self.plan
        self.scans[scan.number] = scan
        for x in self.values(scan):
            home = plan.homes[x]
            if isinstance(home, Slot):
                self.slots[home.number] = x
            self.there.add(x)
        for j, move in enumerate(plan.moves[scan]):
            start = based(scan.starts[j])
            self.read(start, "the start of a loop")
            self.now[scan, j] = start
            if move.first is not None:
                self.slots[move.first] = (scan, j)
                self.now[scan, j] = move.first
            if move.second is not None:
                self.later[scan, j] = move.second
        for _ in range(2):
            self.steps(loop.steps)
            self.end(loop)

    def end(self, loop: Loop) -> None:
        """Results go to their stacks, and carried values on to the next pass; sums of parts come after the loop."""
        scan = loop.scan
        later = {x for a in loop.afterwards for x in a.results}
        for part, node in self.plan.stacked[scan]:
            if node not in later:
                self.read(based(node), "a stack of results")
            self.read(part, "the end of a pass")
        for j, move in enumerate(self.plan.moves[scan]):
            if move.second is not None:
                if move.copied:
                    self.read(based(scan.carries[j]), "the end of a pass")
                    self.slots[self.later[scan, j]] = (scan, j)
        for j, move in enumerate(self.plan.moves[scan]):
            key = scan, j
            if move.second is not None:
                before = self.now[key]
                assert isinstance(before, int)
                self.now[key] = after = self.later[key]
                self.later[key] = before
                if self.slots.get(after) != key:
                    raise Unsound(f"a carried value is looked for in slot {after}, which holds {self.held(after)}")
            elif not isinstance(based(scan.carries[j]), ir.Step):
                self.now[key] = based(scan.carries[j])


class Buffers(Run):
    """A run in which slots are buffers that are asked for and given back."""

    def steps(self, steps: list[Step]) -> None:
        for step in steps:
            super().steps([step])
            for number in self.plan.freed.get(step, ()):
                self.slots.pop(number)

    def values(self, node: ir.Node) -> list[ir.Node]:
        if isinstance(node, ir.Scan):  # one that is one kernel: those that are read have a home
            parts = [part_of(node, k) for k in range(len(node.results) + len(node.carries))]
            return [x for x in parts if x in self.plan.homes]
        return super().values(node)

    def together(self, step: Step, given: Sequence[ir.Node], written: Sequence[ir.Node], name: str) -> None:
        """What a step reads is there; it writes over what nothing reads any more, and reads only in that place."""
        taken = {slot for x in given for slot in self.read(x, name)}
        for x in written:
            home = self.plan.homes[x]
            if isinstance(home, Slot):
                old = self.slots.get(home.number)
                if home.number in taken:
                    legal = isinstance(step, Kernel) and isinstance(x, ir.Comp) and isinstance(old, ir.Comp)
                    if not legal or not over(step, x, old):  # type: ignore[arg-type]
                        raise Unsound(
                            f"{show(x)} is written to slot {home.number}, which {name} needs for another value"
                        )
                self.slots[home.number] = x
            elif isinstance(home, Entry):
                self.slots.setdefault(home.number, x)
            self.there.add(x)

    def read(self, node: ir.Node, reader: str) -> list[int]:
        """The buffer that a value is read from, which must be there, and hold it."""
        if isinstance(node, ir.Step) and node.kind == "carry":
            return self.carried((self.scans[node.scan], node.place), reader)
        node = self.plan.same.get(placed(node), placed(node))
        home = self.plan.homes.get(node)
        if isinstance(home, Entry):
            if node not in self.there:
                raise Unsound(f"{reader} reads {show(node)}, which is not in memory")
            if home.number not in self.slots:
                raise Unsound(f"{reader} reads {show(node)} from slot {home.number}, which is given back")
            return [home.number]
        if isinstance(home, Slot):
            owner = self.slots.get(home.number)
            if owner is None:
                raise Unsound(f"{reader} reads {show(node)}, which is not in memory")
            if owner is not node and not isinstance(owner, tuple):
                raise Unsound(
                    f"{reader} reads {show(node)} from slot {home.number}, which holds {self.held(home.number)}"
                )
            return [home.number]
        return super().read(node, reader)

    def loop(self, loop: Loop) -> None:
        scan, plan = loop.scan, self.plan
        self.scans[scan.number] = scan
        for j, move in enumerate(plan.moves[scan]):
            assert move.first is not None
            self.read(scan.starts[j], "the start of a loop")
            self.slots[move.first] = (scan, j)
            self.now[scan, j] = move.first
        kept: list[ir.Node] = [x for a in loop.afterwards for x in a.parts.values()]
        kept += (part_of(scan, k) for k in range(len(scan.results) + len(scan.carries)))
        for x in kept:
            home = plan.homes.get(x)
            self.there.add(x)
            if isinstance(home, Slot) and not isinstance(self.slots.get(home.number), tuple):
                self.slots[home.number] = x
        for _ in range(2):
            self.steps(loop.steps)
            for part, node in plan.stacked[scan]:
                self.read(node, "a stack of results")
                self.read(part, "the end of a pass")
            for j, carry in enumerate(scan.carries):
                self.read(carry, "the end of a pass")
                self.carried((scan, j), "the end of a pass")


def reads(node: ir.Comp) -> Iterator[ir.Read]:
    return (s for s in ir.scalars(node.body) if isinstance(s, ir.Read))


def show(node: ir.Node) -> str:
    return str(getattr(node, "name", "")) or "a value without a name"
