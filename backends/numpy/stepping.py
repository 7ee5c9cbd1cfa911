"""One step of a sequence model as NumPy text: `init_cache` makes the cache, `step` takes one more position.

Histories are arrays with room for all positions; a step writes the newest element into them and reads the part that is
filled. Entries of layers are kept one for each: `cache[f"attention.k.{l}"]`. Those of a scan along another axis have
that axis in front.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dslc.backends.numpy.arguments import bind, bind_params, uses_random, widened
from dslc.backends.numpy.function import Function, ModuleText
from dslc.backends.numpy.names import argument
from dslc.backends.numpy.passes import prepared
from dslc.backends.numpy.results import dictionary, given_away
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import DTYPES, atom_code, size_code

from dslc.check import program as p
from dslc.guards import agreement, fitting, needs, values
from dslc.incremental.cache import Slot, is_stacked, layers
from dslc.incremental.program import StepProgram, bounded, entry_of, grows, open_sizes
from dslc.ir import nodes as ir
from dslc.ir.interning import within
from dslc.pipeline import NEXT
from dslc.program import Program
from dslc.sizes import Symbol


class Sink(str):
    """Where the value of an entry goes at the end of a pass: in a loop in a loop, the outer one counts too."""

    steps: Mapping[int, str]
    outer: Sequence[ir.Scan]

    def format(self, *step: object, **_: object) -> str:
        return str.format(self, *(self.steps[x.number] for x in self.outer), *step)


def leaves(low: Lowering, cache: str, slot: Slot, value: ir.Tensor) -> list[ir.Node]:
    """Let the values of all passes leave the loops at the innermost; gives what must be computed for it."""
    outer = inner = value
    around: list[ir.Scan] = []
    for _ in layers(slot)[1:]:
        assert isinstance(inner, ir.Part) and isinstance(inner.of, ir.Scan)
        around.append(inner.of)
        inner = inner.of.results[inner.number]
    sink = Sink(one_of(cache, slot))
    sink.steps, sink.outer = low.steps, around
    low.layers.sinks.setdefault(inner, []).append(sink)
    assert isinstance(outer, ir.Part)
    return [inner] if inner is outer else [outer.of]


def step_functions(text: ModuleText, program: Program) -> list[str]:
    """The texts of `init_cache` and `step`, where a model can be run one position at a time."""
    if program.step is None:
        return []
    made, table = program.step
    with within(table):
        found = prepared({**made.outputs, **{NEXT + k: x for k, x in made.updates.items()}})
        updates = {k: found.pop(NEXT + k) for k in made.updates}
        step = replace(made, outputs=found, updates=updates, starts=prepared(made.starts))
        return [_init_cache(text, program.model, step), _step(text, program.model, step)]


def cache_names(low: Lowering, program: StepProgram, inputs: Sequence[str]) -> tuple[str, str]:
    """What the cache and the room that it has are called: an input may have one of these names."""
    low.taken |= {argument(s.name) for s in open_sizes(program.unit)} | set(map(argument, inputs))
    return low.fresh("cache"), low.fresh("length", "room", "room_for_positions")


@dataclass
class Start:
    """What `init_cache` takes and checks, as modules on arrays do."""

    low: Lowering
    #: what the cache and the room that it has are called
    cache: str
    room: str
    #: inputs without positions
    fixed: dict[str, ir.Input]
    #: sizes that no input tells
    asked: list[str]
    limited: bool
    prologue: list[str]

    def arguments(self, state: Sequence[str], seed: bool) -> list[str]:
        named = [*self.asked, *([self.room] if self.limited else [])]
        return ["params", *map(argument, self.fixed), *state, *(["*"] if named else []), *named, *["seed=0"] * seed]

    def entries(self, program: StepProgram) -> str:
        """The dict of a cache without values."""
        entries = ['"positions": 0', *([f'"length": {self.room}'] if self.limited else [])]
        entries += [f'"{entry_of(s)}": {argument(s.name)}' for s in open_sizes(program.unit) if s is not program.length]
        return f"{{{', '.join(entries)}}}"

    def doc(self, model: p.Instance) -> str:
        room = f", with room for `{self.room}` positions." if self.limited else "."
        return f"The cache of {model.name} before the first position{room}"


def start_of(text: ModuleText, model: p.Instance, program: StepProgram) -> Start:
    unit, length = program.unit, argument(program.length.name)
    fixed = {n: x for n, x in unit.inputs.items() if x.role == "input" and n not in program.inputs}
    low = Lowering(text.dtype)
    cache, room = cache_names(low, program, list(fixed))
    prologue: list[str] = []
    sizes: dict[str, str] = {}
    for name, node in fixed.items():
        low.names[node] = argument(name)
        prologue.append(_entry(low, name, node, [str(s) if isinstance(s, int) else f'"{s}"' for s in node.shape]))
        for axis, size in enumerate(node.shape):
            if isinstance(size, Symbol):
                sizes.setdefault(argument(size.name), f"{argument(name)}.shape[{axis}]")
    asked = [argument(s.name) for s in open_sizes(unit) if s is not program.length]
    asked = [name for name in asked if name not in sizes]
    limited = bounded(model, program)
    prologue += [f"{symbol} = {code}" for symbol, code in sizes.items()]
    prologue += [f"{length} = {room}"] if limited else []
    prologue += agreement(replace(unit, inputs=fixed), size_code, argument)
    prologue += needs(unit, model.where, size_code)
    given = [x for x in model.inputs if x.name in fixed and (limited or not grows(x, program))]
    prologue += values(unit, given, size_code, argument)
    return Start(low, cache, room, fixed, asked, limited, prologue)


def _init_cache(text: ModuleText, model: p.Instance, program: StepProgram) -> str:
    start = start_of(text, model, program)
    low, cache, prologue = start.low, start.cache, start.prologue
    roots = _start_roots(low, cache, program)
    state = _states(low, program, roots)
    prologue[:0] = fitting(program.unit, bool(state), "FLOAT" if text.half else "DTYPE")
    prologue += widened(text, roots)
    bind_params(low, program.unit, roots)
    low.line(f"{cache} = {start.entries(program)}")
    low.run(roots)
    _fill(low, cache, program)
    text.used |= low.used
    arguments = start.arguments(state, uses_random(roots))
    function = Function("init_cache", arguments, start.doc(model), low, prologue, [f"return {cache}"])
    return function.text()


def _start_roots(low: Lowering, cache: str, program: StepProgram) -> list[ir.Node]:
    """What must be computed before the first step; what differs from pass to pass goes to the cache in its loop."""
    roots: list[ir.Node] = []
    for slot in program.slots:
        start = program.starts.get(slot.name)
        if start is not None:
            roots += leaves(low, cache, slot, start) if layers(slot) and is_stacked(slot, start) else [start]
    return roots


def _fill(low: Lowering, cache: str, program: StepProgram) -> None:
    """Entries that the loops of the starts have not made: empty histories, and starts that passes have in common."""
    groups: dict[tuple[ir.Scan, ...], list[tuple[str, str]]] = {}
    for slot in program.slots:
        around = layers(slot)
        target, shape = one_of(cache, slot), slot.input.shape[len(around) :]
        sizes = ", ".join(map(size_code, shape)) + ("," if len(shape) == 1 else "")
        start = program.starts.get(slot.name)
        if start is None:
            value = f"np.zeros(({sizes}), {low.numpy_dtype(slot.input.dtype)})"
        elif around and is_stacked(slot, start):
            continue
        elif len(start.shape) < len(shape):  # the same in all steps of a scan
            value = f"np.broadcast_to({low.tensor(start)}, ({sizes})).copy()"
        else:
            value = given_away(low, {slot.name: start})[slot.name]
            value = f"{atom_code(value)}.copy()" if around and not value.endswith(".copy()") else value
        groups.setdefault(around, []).append((target, value))
    for loops, lines in groups.items():
        names = [low.fresh(x) for x in "lkji"[: len(loops)]]
        for name, scan in zip(names, loops, strict=True):
            low.line(f"for {name} in range({size_code(scan.length)}):")
            low.indent += 1
        for target, value in lines:
            low.line(f"{target.format(*names)} = {value.format(*names) if loops else value}")
        low.indent -= len(loops)


def checks_of_step(low: Lowering, cache: str, model: p.Instance, program: StepProgram) -> tuple[list[str], list[str]]:
    """The inputs of a step, and the lines that check them and name what sizes are."""
    unit, length = program.unit, argument(program.length.name)
    prologue = [f'{argument(s.name)} = {cache}["{entry_of(s)}"]' for s in open_sizes(unit) if s is not program.length]
    ordered = [n for n in unit.inputs if n in program.inputs]
    for name in ordered:
        node = program.inputs[name]
        low.names[node] = argument(name)
        prologue.append(_entry(low, name, node, [size_code(s) for s in node.shape]))
    prologue.append(f'{length} = {cache}["positions"] + 1')
    if bounded(model, program):
        full = f"the cache is full: it has room for {{{cache}['length']}} positions"
        prologue += [f'if {length} > {cache}["length"]:', f'    raise ValueError(f"{full}")']
    given = [x for x in model.inputs if x.name in program.inputs]
    prologue += values(unit, [x for x in given if not grows(x, program)], size_code, argument)
    if bounded(model, program):  # positions up to the last one that there is room for
        at_most = [x for x in given if grows(x, program)]
        prologue += [
            re.sub(rf"\b{length}\b", f'{cache}["length"]', x) for x in values(unit, at_most, size_code, argument)
        ]
    return ordered, prologue


def _step(text: ModuleText, model: p.Instance, program: StepProgram) -> str:
    unit, length = program.unit, argument(program.length.name)
    low = Lowering(text.dtype)
    cache, _ = cache_names(low, program, list(program.inputs))
    ordered, prologue = checks_of_step(low, cache, model, program)
    changing = {x.name for x in program.slots if x.kind == "state"}
    updates = {k: x for k, x in program.updates.items() if k in changing}
    roots: list[ir.Node] = list(program.outputs.values())
    for slot in program.slots:
        if slot.kind == "state":
            next_value = updates[slot.name]
            roots += leaves(low, cache, slot, next_value) if layers(slot) else [next_value]
    state = _states(low, program, roots)
    prologue[:0] = fitting(unit, bool(state), "FLOAT" if text.half else "DTYPE")
    prologue += widened(text, roots)
    bind_params(low, unit, roots)
    for slot in program.slots:
        axis = len(slot.loops) - len(layers(slot)) + slot.axis
        cut = "[" + ", ".join([*[":"] * axis, f":{length}"]) + "]" if slot.kind == "history" else ""
        if layers(slot):
            low.layers.stars[slot.input] = one_of(cache, slot) + cut
        else:
            ending = {"history": "_seen", "state": "_before"}.get(slot.kind, "")
            low.names[slot.input] = low.fresh(slot.name + ending)
            prologue.append(f'{low.names[slot.input]} = {cache}["{slot.name}"]{cut}')
    low.run(roots)
    text.used |= low.used
    alone = {k: updates[k] for x in program.slots if not layers(x) and (k := x.name) in updates}
    results = given_away(low, {**{NEXT + k: x for k, x in alone.items()}, **program.outputs})
    epilogue = [f'{cache}["{k}"] = {results.pop(NEXT + k)}' for k in alone]
    epilogue.append(f'{cache}["positions"] = {length}')
    epilogue.append(f"return {next(iter(results.values())) if len(results) == 1 else dictionary(results)}, {cache}")
    arguments = ["params", cache, *map(argument, ordered), *state, *(["seed=0"] if uses_random(roots) else [])]
    doc = f"The outputs of {model.name} at one more position, and the cache, which is changed in place."
    return Function("step", arguments, doc, low, prologue, epilogue).text()


def one_of(cache: str, slot: Slot) -> str:
    """How an entry is written, to be formatted with the names of the variables of its layers.

    >>> from dslc.ir.nodes import Input
    >>> one_of("cache", Slot("state", "h", Input("h", "cache", "f32", ())))
    'cache["h"]'
    """
    around = len(layers(slot))
    return f'{cache}[f"{slot.name}{".{{{}}}" * around}"]' if around else f'{cache}["{slot.name}"]'


def _entry(low: Lowering, name: str, node: ir.Input, shape: Sequence[str]) -> str:
    inner = ", ".join(shape) + ("," if len(shape) == 1 else "")
    dtype = low.numpy_dtype(node.dtype) if node.dtype in ("float", "f32") else DTYPES[node.dtype]
    return f'{argument(name)} = entry("{name}", {argument(name)}, {dtype}, ({inner}))'


def _states(low: Lowering, program: StepProgram, roots: Sequence[ir.Node]) -> list[str]:
    """States of the model, such as running means, where they are needed."""
    needed = {x for x in ir.schedule(tuple(roots)) if isinstance(x, ir.Input) and x.role == "state"}
    bind(low, program.unit, "state", [(path, x) for path, x in program.unit.inputs.items() if x in needed])
    return ["state"] if needed else []
