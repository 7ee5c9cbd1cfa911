"""Loops of the host: scans whose steps are launches. What is stacked is written in its place at once.

A carried value whose history is kept has one stack with a place more than there are steps: a step finds it at one
place and writes the next value beside it, so that nothing is copied.

    forward    before step t: stack[t]        after it: stack[t + 1]
    backward   before step t: stack[t + 1]    after it: stack[t]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dslc.backends.triton.recurrence import results
from dslc.backends.triton.text import name_of, size_code
from dslc.backends.triton.tiles import tiled

from dslc.ir import nodes as ir
from dslc.schedule.form import Afterwards, Kernel, Loop, Step
from dslc.schedule.kernels import kernel_of
from dslc.schedule.split import carried, histories, is_history
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


def starts(steps: Sequence[Step]) -> dict[ir.Node, tuple[ir.Scan, int]]:
    """Values of kernels with which loops begin that keep their histories: they are put there at once."""
    made = {x for s in steps if isinstance(s, Kernel) for x in s.stored}
    found: dict[ir.Node, tuple[ir.Scan, int]] = {}
    for loop in (s for s in steps if isinstance(s, Loop)):
        for k in histories(loop.scan):
            if loop.scan.starts[k] in made:
                found.setdefault(loop.scan.starts[k], (loop.scan, k))
    return found


def stack_of(host: Host, scan: ir.Scan, place: int) -> Stack:
    """A new stack for a carried value."""
    value = carried(scan)[place]
    name = host.empty(value, (scan.length + 1, *value.shape), f"{host.wish(value)}_steps")
    return Stack(name, scan)


def run_loop(host: Host, loop: Loop) -> None:
    """A Python loop over the steps of a scan."""
    scan = loop.scan
    inner, _ = ir.inside(scan)
    numbers = [x for x in inner if isinstance(x, ir.Step) and x.scan == scan.number]
    counter = host.fresh(ir.counter_of(scan))
    host.comment([scan])
    begun = {k: host.stacks.pop((scan, k)) for k in histories(scan) if (scan, k) in host.stacks}
    stacks = {k: begun[k] if k in begun else stack_of(host, scan, k) for k in histories(scan)}
    for k, stack in stacks.items():
        if host.names.get(scan.starts[k]) != stack.start:
            copied(host, scan.starts[k], stack.start)
    befores: list[str] = []
    for k, start in enumerate(scan.starts):
        if k in stacks:
            befores.append(stacks[k].before(counter))
            continue
        value = carried(scan).get(k)
        name = host.fresh(f"{host.wish(value) if value is not None else 'carry'}_before")
        host.line(f"{name} = {host.tensor(start)}")
        befores.append(name)
    late = loop.afterwards
    for a in late:
        for node, part in a.parts.items():
            host.names[part] = host.empty(part, part.shape, f"{host.wish(node)}_parts")
    stacked = [
        "" if any(x in a.results for a in late) else placed_result(host, scan, k, stacks)
        for k, x in enumerate(scan.results)
    ]
    length = size_code(scan.length)
    host.line(f"for {counter} in {f'reversed(range({length}))' if scan.reverse else f'range({length})'}:")
    outer, names, taken, targets = host.around.times, dict(host.names), set(host.taken), dict(host.targets)
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
    host.around.indent -= 1
    host.around.counters.pop()
    host.around.times, host.names, host.taken, host.targets = outer, names, taken - {counter}, targets
    host.last_comment = ""
    for a in late:
        add_up(host, scan, a, stacked)
    lasts = [stacks[k].last if k in stacks else befores[k] for k in range(len(scan.starts))]
    host.parts[scan] = [*stacked, *lasts]


def add_up(host: Host, scan: ir.Scan, late: Afterwards, stacked: list[str]) -> None:
    """Let the parts of all steps of a loop be added up."""
    places = {late.results[x]: k for k, x in enumerate(scan.results) if x in late.results}
    for node, k in places.items():
        part = results(scan)[0][k]
        target = host.targets.pop(part, None) or host.empty(node, node.shape, f"{host.wish(scan.results[k])}_steps")
        host.targets[node] = stacked[k] = target
    host.late.append(late.kernel)


def placed_result(host: Host, scan: ir.Scan, number: int, stacks: dict[int, Stack]) -> str:
    """Where a result of all steps lies: in the history of a carried value, where a loop around wants it, or anew."""
    result = scan.results[number]
    for k, stack in stacks.items():
        if result in (carried(scan)[k], scan.carries[k]):
            return stack.all(before=result is not scan.carries[k])
    part = results(scan)[0][number]
    if part in host.targets:
        return host.targets.pop(part)
    return host.empty(result, (scan.length, *result.shape), f"{host.wish(result)}_steps")


def targets_of(
    host: Host, loop: Loop, stacks: dict[int, Stack], stacked: Sequence[str], counter: str
) -> list[tuple[ir.Tensor, str]]:
    """Let values be made where they are kept; gives those that must be copied there, with their places."""
    scan = loop.scan
    wanted = [(scan.carries[k], stack.after(counter)) for k, stack in stacks.items()]
    others = ((k, x) for k, x in enumerate(scan.results) if stacked[k] and not is_history(scan, x))
    wanted += [(x, f"{stacked[k]}[{counter}]") for k, x in others]
    made = {n for s in loop.steps if isinstance(s, Kernel) for n in s.stored}
    waiting: list[tuple[ir.Tensor, str]] = []
    for node, target in wanted:
        maker = node if node in made else made_by(node)
        if maker is None or maker in host.targets:
            waiting.append((node, target))
        else:
            host.targets[maker] = target
    return waiting


def made_by(node: ir.Tensor) -> ir.Tensor | None:
    """The tensor that a launch or a loop makes for a part of a node; None if it lies elsewhere."""
    if not isinstance(node, ir.Part) or isinstance(node.of, ir.Custom):
        return None
    if not isinstance(node.of, ir.Scan):
        return node
    scan = node.of
    if node.number >= len(scan.results) or is_history(scan, scan.results[node.number]):
        return None
    return results(scan)[0][node.number]


def copied(host: Host, node: ir.Tensor, target: str) -> None:
    """A value put to another place, by a kernel like any other."""
    read = ir.read(node, tuple(ir.plain(k) for k in range(len(node.shape))))
    copy = ir.intern(ir.Comp(node.shape, (), None, read, node.dtype, name_of(node), getattr(node, "span", NOWHERE)))
    kernel = kernel_of(copy)
    kernel.stored = [copy]
    host.targets[copy] = target
    host.kernel(tiled(kernel, host.registry.dtype))
