"""One step of a sequence model as host functions: `init_cache` makes the cache, `step` takes one more position.

Histories are tensors with room for all positions. A step puts the newest element into them, and kernels read the part
that is filled: `k_seen[:, T - 1].copy_(k)`. Other entries are replaced by their next values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dslc.backends.triton.functions import Function, bind_layers, dictionary, leading_places, result
from dslc.backends.triton.host import Host
from dslc.backends.triton.numbers import text_of
from dslc.backends.triton.registry import Registry
from dslc.backends.triton.target import TARGET
from dslc.backends.triton.text import HOST, argument, of_statement, size_code, size_name

from dslc.builder.tables import LOOPS
from dslc.check import program as p
from dslc.guards import agreement, fitting, needs, values
from dslc.incremental.cache import Slot, is_stacked, layers
from dslc.incremental.program import StepProgram, bounded, entry_of, grows, open_sizes
from dslc.incremental.room import Grown
from dslc.ir import nodes as ir
from dslc.ir.namespace import line_names
from dslc.pipeline import NEXT
from dslc.schedule.prepare import schedule
from dslc.sizes import Symbol, symbol


def step_functions(registry: Registry, model: p.Instance, program: StepProgram) -> list[Function]:
    """`init_cache` and `step`."""
    return [_init_cache(registry, model, program), _step(registry, model, program)]


@dataclass
class Stepping(Host):
    """A host function that keeps histories in a cache."""

    cache: str = "cache"
    newest: str = ""
    histories: Mapping[str, Slot] = field(default_factory=dict)

    def call(self, node: ir.Scatter | ir.Along | ir.External) -> None:
        if isinstance(node, ir.External) and node.op in self.histories:
            self.grow(node, self.histories[node.op])
        else:
            super().call(node)

    def grow(self, node: ir.External, slot: Slot) -> None:
        """Put the newest element into a history."""
        depth = len(layers(slot))
        entry = one_of(self.cache, slot, self.around.counters[:depth])
        entry += "".join(f"[{counter}]" for counter in self.around.counters[depth : len(slot.loops)])
        name = self.fresh(node.name or f"{slot.name}_seen")
        place = ", ".join([*[":"] * slot.axis, self.newest])
        self.comment([node])
        self.line(f"{name} = {entry}")
        self.line(f"{name}[{place}].copy_({self.tensor(node.args[0])})")
        self.parts[node] = [name]


def one_of(cache: str, slot: Slot, counters: Sequence[str]) -> str:
    """An entry of the cache; those of layers are kept one for each.

    >>> one_of("cache", Slot("state", "h", ir.Input("h", "cache", "f32", ())), [])
    'cache["h"]'
    """
    ending = "".join(f".{{{x}}}" for x in counters)
    return f'{cache}[f"{slot.name}{ending}"]' if counters else f'{cache}["{slot.name}"]'


# ---- functions


def _init_cache(registry: Registry, model: p.Instance, program: StepProgram) -> Function:
    unit, length = program.unit, size_name(program.length.name)
    fixed = {n: x for n, x in unit.inputs.items() if x.role == "input" and n not in program.inputs}
    limited = bounded(model, program)
    computed = {name: x for name, x in program.starts.items() if constant(x) is None}
    made = schedule(computed, TARGET, registry.dtype, computed)
    starts = made.results
    host = Host(registry)
    cache, room = _names(host, program, list(fixed))
    prologue, state = _begun(host, program, list(starts.values()))
    sizes: dict[str, str] = {}
    for name, node in fixed.items():
        prologue.append(_entry(host, name, node, [str(s) if isinstance(s, int) else f'"{s}"' for s in node.shape]))
        for axis, size in enumerate(node.shape):
            if isinstance(size, Symbol):
                sizes.setdefault(size_name(size.name), f"{argument(name)}.shape[{axis}]")
    asked = [s.name for s in open_sizes(unit) if size_name(s.name) not in sizes and s is not program.length]
    prologue += [f"{name} = {code}" for name, code in sizes.items()]
    prologue += [f"{size_name(name)} = {argument(name)}" for name in asked if size_name(name) != argument(name)]
    asked = [argument(name) for name in asked]
    prologue += [f"{length} = {room}"] if limited else []
    prologue += agreement(replace(unit, inputs=fixed), size_code, argument)
    prologue += needs(unit, model.where, size_code)
    given = [x for x in model.inputs if x.name in fixed and (limited or not grows(x, program))]
    prologue += values(unit, given, size_code, argument)
    host.compute(made)
    found = {k: host.tensor(x) for k, x in starts.items()}
    entries = ['"positions": 0', *([f'"length": {room}'] if limited else [])]
    entries += [f'"{entry_of(s)}": {size_name(s.name)}' for s in open_sizes(unit) if s is not program.length]
    epilogue = [f"{cache} = {{{', '.join(entries)}}}", *_filled(host, cache, room, program, found), f"return {cache}"]
    arguments = ["params", *(argument(n) for n in fixed), *state, *(["*"] if asked or limited else []), *asked]
    arguments += [room] if limited else []
    arguments += ["seed=0"] if host.random else []
    doc = f"The cache of {model.name} before the first position"
    doc += f", with room for `{room}` positions." if limited else "."
    return _without_unused(Function("init_cache", arguments, doc, host, prologue, epilogue))


def constant(start: ir.Tensor) -> ir.Const | None:
    """The number that all elements of an entry are before the first position, if they are one."""
    return start.body if isinstance(start, ir.Comp) and isinstance(start.body, ir.Const) else None


def literal(number: ir.Const) -> str:
    """A number as Python."""
    return text_of(number.value)


def _filled(host: Host, cache: str, room: str, program: StepProgram, values: Mapping[str, str]) -> list[str]:
    """The lines that put the entries into the cache: empty histories, and starts, one for each layer."""
    lines: list[str] = []
    for slot in program.slots:
        around = layers(slot)
        shape = [*slot.input.shape[len(around) :]]
        counters = LOOPS[: len(around)]
        start = program.starts.get(slot.name)
        number = ir.const(0.0, slot.input.dtype) if start is None else constant(start)
        if number is not None:
            axis = len(slot.loops) - len(around) + slot.axis if slot.kind == "history" else -1
            sizes = "".join(f"{room if k == axis else size_code(s)}, " for k, s in enumerate(shape)).strip()
            dtype = host.registry.shown(slot.input.dtype)
            made = f"torch.full(({sizes}), {literal(number)}" if number.value else f"torch.zeros(({sizes})"
            value = f"{made}, dtype={dtype}, device=device)"
        else:
            assert start is not None
            value = values[slot.name]
            if around and is_stacked(slot, start):
                value += f"[{', '.join(counters)}]"
            elif len(start.shape) < len(shape):  # the same in all steps of a scan
                value += f".expand({', '.join(map(size_code, shape))}).contiguous()"
        for k, (counter, scan) in enumerate(zip(counters, around, strict=False)):
            lines.append(f"{'    ' * k}for {counter} in range({size_code(scan.length)}):")
        lines.append(f"{'    ' * len(around)}{one_of(cache, slot, counters)} = {value}")
    return lines


def _step(registry: Registry, model: p.Instance, program: StepProgram) -> Function:
    unit, length = program.unit, size_name(program.length.name)
    host = Stepping(registry)
    cache, room = _names(host, program, list(program.inputs))
    grown, room = Grown(program.slots, program.length, symbol(room)), size_name(room)
    changing = [x for x in program.slots if x.kind == "state"]
    after = {NEXT + s.name: program.updates[s.name] for s in changing}
    made = schedule(grown.outputs({**program.outputs, **after}), TARGET, registry.dtype, after)
    roots = made.results
    host.cache, host.newest = cache, size_code(program.length - 1)
    host.histories = {x.input.name: x for x in program.slots if x.kind == "history"}
    ordered = [n for n in unit.inputs if n in program.inputs]
    prologue, state = _begun(host, program, list(roots.values()))
    prologue += [f'{size_name(s.name)} = {cache}["{entry_of(s)}"]' for s in open_sizes(unit) if s is not program.length]
    for name in ordered:
        prologue.append(_entry(host, name, program.inputs[name], [size_code(s) for s in program.inputs[name].shape]))
    prologue.append(f'{length} = {cache}["positions"] + 1')
    given = [x for x in model.inputs if x.name in program.inputs]
    prologue += values(unit, [x for x in given if not grows(x, program)], size_code, argument)
    if bounded(model, program):
        full = f"the cache is full: it has room for {{{room}}} positions"
        prologue += [f'{room} = {cache}["length"]', f"if {length} > {room}:", f'    raise ValueError(f"{full}")']
        at_most = [x for x in given if grows(x, program)]
        prologue += [re.sub(rf"\b{length}\b", room, x) for x in values(unit, at_most, size_code, argument)]
    prologue += _bind_cache(host, cache, program, list(roots.values()))
    host.compute(made, host.histories)
    found = {k: host.tensor(x) for k, x in roots.items()}
    epilogue: list[str] = []
    for slot in changing:
        counters = LOOPS[: len(layers(slot))]
        for k, (counter, scan) in enumerate(zip(counters, layers(slot), strict=False)):
            epilogue.append(f"{'    ' * k}for {counter} in range({size_code(scan.length)}):")
        index = f"[{', '.join(counters)}]" if counters else ""
        epilogue.append(f"{'    ' * len(counters)}{one_of(cache, slot, counters)} = {found[NEXT + slot.name]}{index}")
    epilogue.append(f'{cache}["positions"] = {length}')
    names = {k: result(x, found[k]) for k, x in program.outputs.items()}
    shown = next(iter(names.values())) if len(names) == 1 else dictionary(names)
    epilogue.append(f"return {shown}, {cache}")
    arguments = ["params", cache, *map(argument, ordered), *state, *(["seed=0"] if host.random else [])]
    doc = f"The outputs of {model.name} at one more position, and the cache, which is changed in place."
    return _without_unused(Function("step", arguments, doc, host, prologue, epilogue))


def _names(host: Host, program: StepProgram, inputs: Sequence[str]) -> tuple[str, str]:
    """What the cache and the room that it has are called: an input may have one of these names."""
    sizes = [s.name for s in open_sizes(program.unit)]
    host.taken |= {*map(size_name, sizes), *map(argument, (*sizes, *inputs)), *HOST}
    cache = host.fresh("cache")
    room = next(x for x in ("length", "room", "room_for_positions") if x not in host.taken)
    host.taken.add(room)
    return cache, room


def _begun(host: Host, program: StepProgram, roots: Sequence[ir.Tensor]) -> tuple[list[str], list[str]]:
    """The first lines of a function, with names for parameters and states; the argument for states, where needed."""
    unit, registry = program.unit, host.registry
    host.given = line_names(roots, of_statement)
    reads = leading_places(roots)
    source = "params" if unit.params else ""
    has_states = any(registry.kept(x) in reads for x in unit.inputs.values() if x.role == "state")
    prologue = fitting(unit, has_states, registry.shown("f32"))
    prologue += [f"device = {f'next(iter({source}.values())).device' if source else 'default_device()'}"]
    state: list[str] = []
    for path, given in unit.inputs.items():
        node = registry.kept(given)
        table = {"param": "params", "state": "state"}.get(node.role)
        if table is None or node not in reads:
            continue
        if table == "state":
            state = ["state"]
        if path not in unit.layers:
            host.names[node] = host.fresh(path)
            prologue.append(f'{host.names[node]} = {table}["{path}"]')
        else:
            prologue += bind_layers(host, unit, path, node, reads[node], table)
    return prologue, state


def _bind_cache(host: Host, cache: str, program: StepProgram, roots: Sequence[ir.Tensor]) -> list[str]:
    """Names for the entries of the cache that kernels read; those of layers are written as that of one layer."""
    reads = leading_places(roots)
    lines: list[str] = []
    for slot in program.slots:
        if slot.input not in reads or slot.kind == "history":
            continue
        depth = len(layers(slot))
        if depth:
            text = one_of(cache, slot, ["COUNTER"] * depth).replace("{", "{{").replace("}", "}}")
            host.layered[slot.input] = (text.replace("COUNTER", "{}"), depth)
        else:
            host.names[slot.input] = host.fresh(f"{slot.name}_before" if slot.kind == "state" else slot.name)
            lines.append(f'{host.names[slot.input]} = {cache}["{slot.name}"]')
    return lines


def _entry(host: Host, name: str, given: ir.Input, shape: Sequence[str]) -> str:
    """The line that checks an argument."""
    node = host.registry.kept(given)
    host.names[node] = argument(name)
    inner = ", ".join(shape) + ("," if len(shape) == 1 else "")
    return f'{argument(name)} = entry("{name}", {argument(name)}, {host.registry.shown(node.dtype)}, ({inner}), device)'


def _without_unused(function: Function) -> Function:
    """The function without lines that give a size or an entry a name which nothing uses."""
    while True:
        lines = [*function.prologue, *function.host.lines, *function.epilogue]
        unused = [
            x
            for x in function.prologue
            if (m := re.fullmatch(r"(\w+) = .*(\.shape\[\d+\]|\.device|\[\"[^\"]*\"\]|default_device\(\)|[a-z_]+)", x))
            and not any(re.search(rf"\b{m[1]}\b", y) for y in lines if y != x)
            and "entry(" not in x
        ]
        if not unused:
            return function
        function.prologue = [x for x in function.prologue if x not in unused]
