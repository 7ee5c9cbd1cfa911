"""Scans as NumPy text: loops over layers, whose parameters differ, and loops over steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dslc.backends.numpy.lower import Comprehensions
from dslc.backends.numpy.text import bare, size_code

from dslc.ir import nodes as ir
from dslc.ir.namespace import identifier, layer_of
from dslc.ops.dtypes import is_float


def late(order: Sequence[ir.Node]) -> list[ir.Node]:
    """The same nodes with each formula just before the first that needs it: what is computed again is soon used."""
    out: list[ir.Node] = []
    waiting: dict[ir.Node, None] = {}

    def take(node: ir.Node) -> None:
        stack = [(node, False)]
        while stack:
            x, ready = stack.pop()
            if ready:
                out.append(x)
            else:
                stack.append((x, True))
                below = [a for a in dict.fromkeys(ir.arguments(x)) if a in waiting]
                for a in below:
                    del waiting[a]
                stack += [(a, False) for a in reversed(below)]

    for node in order:
        if isinstance(node, ir.Comp) and node.op is None and not ir.slice_of_input(node):
            waiting[node] = None
        else:
            take(node)
    for node in list(waiting):
        if node in waiting:
            del waiting[node]
            take(node)
    return out


def _is_at_a_step(read: ir.Read | None) -> bool:
    return read is not None and bool(read.places) and isinstance(read.places[0], ir.At)


def _sliced(node: ir.Comp) -> ir.Node:
    assert isinstance(node.body, ir.Read)
    return node.body.tensor


def under_the_old_name(lines: Sequence[str], old: str, new: str) -> list[str] | None:
    """Lines in which the next value of a variable has the name of the variable at once; None if both are needed.

    >>> under_the_old_name(["y = h * W", "x = h + y", "x += b"], "h", "x")
    ['y = h * W', 'h = h + y', 'h += b']
    >>> under_the_old_name(["x = h * W", "x += h"], "h", "x")
    """
    name = re.compile(rf'(?<![\w."]){new}(?![\w"])')
    first = next((k for k, line in enumerate(lines) if line.lstrip().startswith(f"{new} = ")), None)
    if first is None or any(name.search(line) for line in lines[:first]):
        return None
    if any(re.search(rf'(?<![\w."]){old}(?![\w"])', line) for line in lines[first + 1 :]):
        return None
    return [*lines[:first], *(name.sub(old, line) for line in lines[first:])]


class Nested(str):
    """Where a value goes at the end of a pass of a loop inside of others: the steps of those are known."""

    around: tuple[str, ...] = ()

    def format(self, *step: object, **_: object) -> str:
        return str.format(self, *self.around, *step)


class Loops(Comprehensions):
    """The part of a lowering that writes scans."""

    def star(self, node: ir.Comp) -> str:
        """How the parameter of a layer is written, when a node is one; steps of scans inside are places along axes."""
        assert isinstance(node.body, ir.Read)
        template = self.stars.get(node.body.tensor, "")
        steps = [self.steps[x.step.scan] for x in node.body.places if isinstance(x, ir.At)]
        inner = steps[template.count("{}") :] if template else []
        return template.format(*steps) + (f"[{', '.join(inner)}]" if inner else "")

    def layers(self, node: ir.Scan) -> None:
        """A loop over layers; what the gradients of a layer need goes to a list, which the loop back empties again."""
        inner, outside = ir.inside(node)
        carried = {x.place: x for x in inner if isinstance(x, ir.Step) and x.kind == "carry"}
        step = self.fresh(ir.counter_of(node))
        length = size_code(node.length)
        carries = []
        for j, start in enumerate(node.starts):
            given = self.names.get(start, "")
            if self.counts.get(start) == 1 and isinstance(start, ir.Comp) and self.is_alone(given):
                carries.append(given)  # nobody else needs it under this name
                continue
            name = self.fresh((carried[j].name if j in carried else "") or "carry")
            self.line(f"{name} = {bare(self.tensor(start))}", "", node.span)
            carries.append(name)
        parts = self.parts.get(node, {})
        stacked: dict[int, str] = {}
        bundle = ""
        for k, result in enumerate(node.results):
            if k not in parts or (parts[k] in self.sinks and not self.is_read(parts[k])):
                continue
            if self.is_bundled(node, parts[k]):
                bundle = bundle or self.fresh("kept", *(f"kept_for_{carry}" for carry in carries))
                self.kept[parts[k]] = (bundle, "")
            else:
                stacked[k] = self.stack(node, parts[k], result, length)
        if bundle:
            self.line(f"{bundle} = []")
        order = f"reversed(range({length}))" if node.reverse else f"range({length})"
        self.line(f"for {step} in {order}:", "", node.span)
        self.indent += 1
        taken = set(self.taken) - {step}
        self.steps[node.number] = step
        self.loops.append(step)
        layer, self.memory.layer = self.memory.layer, identifier(layer_of(node))
        passed = self.passed_on(node, parts, step)
        self.settle(node, parts)
        before = set(self.names)
        for x in inner:
            if isinstance(x, ir.Step):
                self.names[x] = step if x.kind == "number" else carries[x.place]
        for a in outside:
            if a in self.kept and a not in self.slices:  # else a loop around this one has taken it
                self.take(node, a, step)
        self.fetch(inner)
        first_line, together = len(self.lines), dict[ir.Part, str]()
        self.statements(late(inner) if node.reverse else inner)
        for k, result in enumerate(node.results):
            if k not in parts or (k in passed and not self.is_read(parts[k])):
                continue
            value = self.tensor(result)
            if parts[k] in self.sinks and k not in passed:
                whole = f"team.total({value})" if parts[k] in self.partial else value
                first, *others = (sink.format(step) for sink in self.sinks[parts[k]])
                self.line(f"{first} = {whole}")
                for other in others:
                    self.line(f"{other} = {first}.copy()")
            if parts[k] in self.kept:
                local = value if re.fullmatch(r"\w+", value) and value not in carries else ""
                self.kept[parts[k]] = (stacked.get(k, bundle), local)
                if k not in stacked:
                    together[parts[k]] = value
                else:
                    self.line(f"{stacked[k]}[{step}] = {value}" if node.reverse else f"{stacked[k]}.append({value})")
            elif k in stacked:
                self.line(f"{stacked[k]}[{step}] = {value}")
        values = [self.tensor(c) for c in node.carries]
        moved = [(a, b) for a, b in zip(carries, values, strict=True) if a != b]
        if together:
            self.keep_together(bundle, together, first_line, moved[0][1] if len(moved) == 1 else "")
        if len(moved) == 1:
            ((old, new),) = moved
            kept = new in {local for _, local in self.kept.values()}
            own = None if kept else under_the_old_name([x.text for x in self.lines[first_line:]], old, new)
            if own is not None:
                self.lines[first_line:] = [
                    replace(x, text=t) for x, t in zip(self.lines[first_line:], own, strict=True)
                ]
                moved = []
        if moved:
            self.line(f"{', '.join(a for a, _ in moved)} = {', '.join(b for _, b in moved)}")
        self.indent -= 1
        self.loops.pop()
        self.memory.layer = layer
        for a in outside:
            if a in self.kept and a in self.slices and self.names.get(self.slices[a]) and self.slices[a] not in before:
                del self.slices[a]
        for x in set(self.names) - before:
            del self.names[x]
        # names of the loop are free again, but for those that the loop back gives to the same values
        self.taken = taken | {local for _, local in self.kept.values() if local}
        self.names[node] = ""
        self.scan_names[node] = [*(stacked.get(k, "") for k in range(len(node.results))), *carries]

    def is_alone(self, name: str) -> bool:
        """Does a name stand for one value only, and for no part of a formula that others have, too?"""
        shared = any(text.code == name for text in self.shared.values())
        return bool(name) and not shared and sum(x == name for x in self.names.values()) == 1

    def passed_on(self, node: ir.Scan, parts: dict[int, ir.Part], step: str) -> set[int]:
        """The values of a loop that leave the function already in a loop inside of it."""
        found: set[int] = set()
        for k, result in enumerate(node.results):
            inside = isinstance(result, ir.Part) and isinstance(result.of, ir.Scan) and result.of.name == "layers"
            if parts.get(k) in self.sinks and inside:
                for sink in self.sinks[parts[k]]:
                    inner = Nested(sink)
                    inner.around = (*(sink.around if isinstance(sink, Nested) else ()), step)
                    self.sinks.setdefault(result, []).append(inner)
                self.partial |= {result} if parts[k] in self.partial else set()
                self.read_around |= {result} if self.is_read(parts[k]) else set()
                found.add(k)
        return found

    def is_read(self, part: ir.Part) -> bool:
        """Does the function itself read a value of all layers, be it that it leaves it or not?"""
        readers = self.readers.get(part, [])
        return len(readers) > (part in self.roots) or part in self.read_around

    def settle(self, node: ir.Scan, parts: dict[int, ir.Part]) -> None:
        """What outlives a pass of the loop has memory of its own in each pass; a carried value, in every other one."""
        memory = self.memory
        *outer, step = self.loops
        every, other = (f"({', '.join([*outer, x])})" if outer else x for x in (step, f"{step} % 2"))
        held = any(isinstance(x, ir.Step) for each in (*node.results, *node.carries) for x in memory.owners(each))
        for carry in node.carries:
            memory.pin(carry, every if held else other)
        for k, part in parts.items():
            if k >= len(node.results):
                continue
            if part in self.sinks and not all(sink.startswith("grads[") for sink in self.sinks[part]):
                memory.leave([node.results[k]])
            else:
                memory.pin(node.results[k], every)

    def stack(self, node: ir.Scan, part: ir.Part, result: ir.Tensor, length: str) -> str:
        """Where the values of all layers go: a list when they are only read layer by layer, the first layer first."""
        wish = result.name or self.wish(result)
        readers = self.readers.get(part, [])
        if readers and all(_is_at_a_step(r) for r in readers):
            name = self.fresh(f"{wish}_kept")
            self.line(f"{name} = [None] * {length}" if node.reverse else f"{name} = []")
            self.kept[part] = (name, "")
            return name
        name = self.fresh(f"{wish}_all")
        shape = ", ".join((length, *(size_code(s) for s in result.shape)))
        self.line(f"{name} = {self.empty(part, name)}", f"[{shape}]")
        return name

    def is_bundled(self, node: ir.Scan, part: ir.Part) -> bool:
        """Does only the loop back over the same layers read a value, layer by layer?"""
        readers = self.readers.get(part, [])
        if node.reverse or not readers or not all(_is_at_a_step(r) for r in readers):
            return False
        loops = [s for s in self.parts if isinstance(s, ir.Scan) and part in ir.inside(s)[1]]
        outer = [s for s in loops if not any(s in ir.inside(x)[0] for x in loops)]
        return len(outer) == 1 and outer[0].reverse and self.scopes[outer[0]] == self.scopes[node]

    def keep_together(self, name: str, values: dict[ir.Part, str], start: int, end: str) -> None:
        """Keep the values of a layer as the lines from `start` on make them, before the value `end` that goes on."""
        made: dict[str, int] = {}
        for k, line in enumerate(self.lines[start:]):
            made.setdefault(line.text.split(" = ")[0].strip(), k)
        self.bundles[name] = sorted(values, key=lambda x: made.get(values[x], -1))
        items = ", ".join(values[x] for x in self.bundles[name])
        self.line(f"{name}.append(({items}))" if len(values) > 1 else f"{name}.append({items})")
        last = made.get(end, len(self.lines))
        in_loops = any(x.text.lstrip().startswith("for ") for x in self.lines[start + last :])
        if not in_loops and all(made.get(value, -1) < last for value in values.values()):
            self.lines.insert(start + last, self.lines.pop())

    def fetch(self, inner: Sequence[ir.Node]) -> None:
        """Name the parameters and states of a layer, in the order of their tables."""
        given = [x for x in self.stars if isinstance(x, ir.Input) and x.role in ("param", "state")]
        known: dict[ir.Node, int] = {x: k for k, x in enumerate(given)}
        found = [x for x in inner if isinstance(x, ir.Comp) and ir.slice_of_input(x) and _sliced(x) in known]
        for x in sorted(found, key=lambda x: known[_sliced(x)]):
            if x not in self.names:
                self.statement(x)

    def take(self, node: ir.Scan, part: ir.Node, step: str) -> None:
        """Give the value that a layer has left a name inside the loop back, and all that are kept with it."""
        assert isinstance(part, ir.Part)
        stored, _ = self.kept[part]
        together = self.bundles.get(stored, [part])
        names = [self.local_name(x) for x in together]
        loops = [ir.inside(s)[1] for s in self.parts if isinstance(s, ir.Scan)]
        once = node.reverse and sum(part in outside for outside in loops) == 1
        popped = once or stored in self.bundles
        self.line(f"{', '.join(names)} = {stored}.pop()" if popped else f"{names[0]} = {stored}[{step}]")
        for x, name in zip(together, names, strict=True):
            if node.reverse and len(self.loops) == 1 and sum(x in outside for outside in loops) == 1:
                self.memory.lend(x, step)
            stands = ir.intern(ir.Input(name, "local", x.dtype, x.shape[1:]))
            self.names[stands] = name
            self.slices[x] = stands

    def local_name(self, part: ir.Part) -> str:
        """What the value of a layer is called in the loop back: as in the loop, if it has a name of its own there."""
        assert isinstance(part.of, ir.Scan)
        result = part.of.results[part.number]
        return self.kept[part][1] or self.fresh(f"{result.name or self.wish(result)}_in")

    def scan(self, node: ir.Scan) -> None:
        """A Python loop over the steps; what does not depend on the step stands before it."""
        inner, _ = ir.inside(node)
        step = self.fresh(ir.counter_of(node))
        length = size_code(node.length)
        carry_names = []
        steps = {x.place: x for x in inner if isinstance(x, ir.Step) and x.kind == "carry"}
        for j, start in enumerate(node.starts):
            name = self.fresh(f"{(steps[j].name if j in steps else '') or 'carry'}_before")
            self.line(f"{name} = {bare(self.tensor(start))}", "start" + self.place(node))
            carry_names.append(name)
        stacked: dict[int, str] = {}
        for k, result in enumerate(node.results):
            shape = (node.length, *result.shape)
            part = self.parts.get(node, {}).get(k)
            if part is not None or not isinstance(result, ir.Scatter):  # histories grow where they are
                name = stacked[k] = self.fresh(f"{result.name or 'step'}_steps")
                part = part or ir.intern(ir.Part(node, k, result.dtype, shape))
                self.line(f"{name} = {self.empty(part, name)}", f"[{', '.join(map(size_code, shape))}]")
        order = f"reversed(range({length}))" if node.reverse else f"range({length})"
        self.line(f"for {step} in {order}:", self.place(node).strip())
        self.indent += 1
        self.steps[node.number] = step
        for x in inner:
            if isinstance(x, ir.Step):
                self.names[x] = step if x.kind == "number" else carry_names[x.place]
        before = set(self.names)
        outer = self.may_block, self.memory.on
        self.may_block = self.memory.on = False  # what a step computes is small
        places = {node.results[k]: f"{name}[{step}]" for k, name in stacked.items()}
        own = {x for x in places if isinstance(x, ir.Comp) and is_float(x.dtype) and x.shape}
        around, self.kept_at = self.kept_at, {x: places[x] for x in places if x in own}
        self.statements(inner)
        self.may_block, self.memory.on = outer
        for k, name in stacked.items():
            result = node.results[k]
            if result not in own or result in self.kept_at or places[result] != f"{name}[{step}]":
                self.line(f"{name}[{step}] = {self.tensor(result)}")
        self.kept_at = around
        values = [self.tensor(c) for c in node.carries]
        if values:
            self.line(f"{', '.join(carry_names)} = {', '.join(values)}")
        self.indent -= 1
        for x in set(self.names) - before:
            if x in inner:
                del self.names[x]
        for x in inner:
            if isinstance(x, ir.Step):
                self.names.pop(x, None)
        self.taken.discard(step)
        self.names[node] = ""
        self.scan_names[node] = [*(stacked.get(k, "") for k in range(len(node.results))), *carry_names]
