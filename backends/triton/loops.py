"""Loops of the host: scans whose steps are launches. What is stacked is written in its place at once.

A carried value whose history is kept has one stack with a place more than there are steps: a step finds it at one
place and writes the next value beside it, so that nothing is copied.

    forward    before step t: stack[t]        after it: stack[t + 1]
    backward   before step t: stack[t + 1]    after it: stack[t]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dslc.backends.triton.text import name_of, size_code
from dslc.backends.triton.tiles import tiled

from dslc.ir import nodes as ir
from dslc.schedule.form import Loop
from dslc.schedule.kernels import kernel_of
from dslc.schedule.plan import Entry, Slot
from dslc.schedule.split import carried, histories, is_history, part_of, placed
from dslc.source import NOWHERE

if TYPE_CHECKING:
    from dslc.backends.triton.host import Host


@dataclass(frozen=True)
class Stack:
    """The history of a carried value, with a place for the value that a scan starts with."""

    name: str
    scan: ir.Scan

    @property
    def length(self) -> str:
        return size_code(self.scan.length)

    @property
    def start(self) -> str:
        return f"{self.name}[{self.length if self.scan.reverse else 0}]"

    @property
    def last(self) -> str:
        return f"{self.name}[{0 if self.scan.reverse else self.length}]"

    def before(self, counter: str) -> str:
        return f"{self.name}[{counter}{' + 1' if self.scan.reverse else ''}]"

    def after(self, counter: str) -> str:
        return f"{self.name}[{counter}{'' if self.scan.reverse else ' + 1'}]"

    def all(self, before: bool) -> str:
        """The values of all steps, before or after them."""
        return f"{self.name}[1:]" if before == self.scan.reverse else f"{self.name}[:{self.length}]"


def begun(host: Host, node: ir.Node, home: Entry) -> Stack:
    """A new stack for a carried value that begins with a value which is made now."""
    found = (
        (scan, k) for scan, moves in host.plan.moves.items() for k, m in enumerate(moves) if m.first == home.number
    )
    scan, place = next((scan, k) for scan, k in found if scan.starts[k] is node)
    return stack_of(host, scan, place)


def stack_of(host: Host, scan: ir.Scan, place: int) -> Stack:
    """A new stack for a carried value."""
    value, number = carried(scan)[place], host.plan.moves[scan][place].first
    name = host.empty(value, (scan.length + 1, *value.shape), f"{host.wish(value)}_steps")
    assert number is not None
    host.slots[number] = [name]
    host.stacks[scan, place] = Stack(name, scan)
    return host.stacks[scan, place]


def run_loop(host: Host, loop: Loop) -> None:
    """A Python loop over the steps of a scan."""
    scan = loop.scan
    inner, _ = ir.inside(scan)
    numbers = [x for x in inner if isinstance(x, ir.Step) and x.scan == scan.number]
    counter = host.fresh(ir.counter_of(scan))
    host.comment([scan])
    plan, moves = host.plan, host.plan.moves[scan]
    stacks = {k: host.stacks.get((scan, k)) or stack_of(host, scan, k) for k in histories(scan)}
    for k, stack in stacks.items():
        if host.names.get(scan.starts[k]) != stack.start:
            copied(host, scan.starts[k], stack.start)
    befores: list[str] = []
    for k, start in enumerate(scan.starts):
        if k in stacks:
            befores.append(stacks[k].before(counter))
            continue
        number, value = moves[k].first, carried(scan).get(k)
        assert number is not None
        name = host.tensor(start)
        if plan.homes.get(start) != Slot(number):
            name = host.fresh(f"{host.wish(value) if value is not None else 'carry'}_before")
            host.line(f"{name} = {host.tensor(start)}")
            host.slots[number] = [name]
        befores.append(name)
    late = loop.afterwards
    for a in late:
        host.given |= {made: f"{host.wish(x)}_steps" for x, made in a.results.items()}
        for node, part in a.parts.items():
            host.given[part] = f"{host.wish(node)}_parts"
            host.allocate(part)
    stacked = [
        "" if any(x in a.results for a in late) else placed_result(host, scan, k, stacks)
        for k, x in enumerate(scan.results)
    ]
    length = size_code(scan.length)
    host.line(f"for {counter} in {f'reversed(range({length}))' if scan.reverse else f'range({length})'}:")
    outer, names, taken, targets = replace(host.around), dict(host.names), set(host.taken), dict(host.targets)
    host.around.before = frozenset(host.slots)
    host.around.indent += 1
    host.around.counters.append(counter)
    host.around.times = host.around.times * scan.length
    host.last_comment = ""
    host.around.steps[scan.number] = counter
    for x in numbers:
        host.names[x] = counter if x.kind == "number" else befores[x.place]
    waiting = targets_of(host, loop, stacks, stacked, counter)
    for a in late:
        host.targets |= {a.split.parts[n]: f"{host.names[x]}[{counter}]" for n, x in a.parts.items()}
    host.run(loop.steps)
    for node, target in waiting:
        copied(host, node, target)
    changed = [(befores[k], host.tensor(c)) for k, c in enumerate(scan.carries) if k not in stacks]
    changed = [(a, b) for a, b in changed if a != b]
    if changed:
        host.line(f"{', '.join(a for a, _ in changed)} = {', '.join(b for _, b in changed)}")
    host.free([x for move in moves if move.dropped and move.second is not None for x in host.slots.pop(move.second)])
    host.around.indent -= 1
    host.around.counters.pop()
    host.around.times, host.around.before = outer.times, outer.before
    host.names, host.taken, host.targets = names, taken - {counter}, targets
    host.last_comment = ""
    lasts = [stacks[k].last if k in stacks else befores[k] for k in range(len(scan.starts))]
    host.parts[scan] = [*stacked, *lasts]


def placed_result(host: Host, scan: ir.Scan, number: int, stacks: dict[int, Stack]) -> str:
    """Where a result of all steps lies: in the history of a carried value, where a loop around wants it, or anew."""
    result = scan.results[number]
    for k, stack in stacks.items():
        if result in (carried(scan)[k], scan.carries[k]):
            return stack.all(before=result is not scan.carries[k])
    part = part_of(scan, number)
    host.given[part] = f"{host.wish(result)}_steps"
    host.allocate(part)
    return host.names[part]


def targets_of(
    host: Host, loop: Loop, stacks: dict[int, Stack], stacked: Sequence[str], counter: str
) -> list[tuple[ir.Tensor, str]]:
    """Let values be made where they are kept; gives those that must be copied there, with their places."""
    scan = loop.scan
    wanted = [(scan.carries[k], stack.after(counter)) for k, stack in stacks.items()]
    others = ((k, x) for k, x in enumerate(scan.results) if stacked[k] and not is_history(scan, x))
    wanted += [(x, f"{stacked[k]}[{counter}]") for k, x in others]
    copies = {x for _, x in host.plan.stacked[scan]}
    waiting: list[tuple[ir.Tensor, str]] = []
    for node, target in wanted:
        maker = host.plan.same.get(placed(node), placed(node))
        if node in copies or maker in host.targets or not isinstance(host.plan.homes.get(maker), Entry):
            waiting.append((node, target))
        else:
            host.targets[maker] = target
    return waiting


def copied(host: Host, node: ir.Tensor, target: str) -> None:
    """A value put to another place, by a kernel like any other."""
    read = ir.read(node, tuple(ir.plain(k) for k in range(len(node.shape))))
    copy = ir.intern(ir.Comp(node.shape, (), None, read, node.dtype, name_of(node), getattr(node, "span", NOWHERE)))
    kernel = kernel_of(copy)
    kernel.stored = [copy]
    host.targets[copy] = target
    host.kernel(tiled(kernel, host.registry.dtype))
