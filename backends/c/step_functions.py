"""`init_cache` and `step` of the Python module of a C file: they keep the cache in a dict, as NumPy modules do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.backends.c.functions import DTYPES, Call, Names, Shell, given, results, tables, text_of
from dslc.backends.c.interface import Entry
from dslc.backends.c.stepping import ROOM, shape_of, sizes_of
from dslc.backends.numpy.names import argument
from dslc.backends.numpy.results import dictionary
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.stepping import cache_names, checks_of_step, one_of, start_of
from dslc.backends.numpy.text import constant, shape_code, size_code

from dslc.builder.tables import LOOPS
from dslc.builder.unit import Unit
from dslc.check import program as p
from dslc.guards import fitting
from dslc.incremental.cache import Slot, is_stacked, layers
from dslc.incremental.program import StepProgram, bounded
from dslc.ir import nodes as ir
from dslc.ir.interning import within
from dslc.passes.narrow import HALVES
from dslc.pipeline import NEXT
from dslc.sizes import Size, symbol

#: the number that a seed stands for in C
SEED = "int(seed) & 0xFFFFFFFFFFFFFFFF"


def step_functions(shell: Shell) -> list[str]:
    """The two functions, where a model can be run one position at a time."""
    if shell.program.step is None:
        return []
    made, table = shell.program.step
    with within(table):
        model = shell.program.model
        return [_init_cache(shell, model, made), _step(shell, model, made)]


def _init_cache(shell: Shell, model: p.Instance, program: StepProgram) -> str:
    start, entry = start_of(shell.text, model, program), shell.entry("init_cache")
    cache, fixed = start.cache, start.fixed
    call = Call([], [], Names({*start.low.taken, cache, start.room, "params", "state", "seed"}), {})
    state = _tables(shell, entry, program.unit, call)
    call.prologue += start.prologue
    call.arguments = start.arguments(state, entry is not None and entry.seed)
    if entry is not None and entry.seed:
        call.fields["seed"] = SEED
    loops = [call.names.fresh(x) for x in LOOPS]
    lines: list[str] = []
    found: dict[str, str] = {}
    if entry is not None:
        _given(shell, start.low, call, entry, fixed)
        call.fields |= dict(zip(entry.sizes, (argument(s.name) for s in sizes_of(program)), strict=True))
        made, _ = results(shell, call, entry.results)
        found = dict(zip((x.name for x in entry.results), (x.partition(" = ")[0] for x in made), strict=True))
        lines += [*made, call.line(shell, entry)]
    shell.text.used |= start.low.used
    lines.append(f"{cache} = {start.entries(program)}")
    for slot in program.slots:
        lines += _first(slot, program, start.room, cache, found, loops, _dtype(shell, slot))
    lines.append(f"return {cache}")
    return text_of("init_cache", start.doc(model), call, lines)


def _first(
    slot: Slot, program: StepProgram, room: str, cache: str, found: Mapping[str, str], loops: Sequence[str], dtype: str
) -> list[str]:
    """The lines that put an entry into the cache: an empty history, a number everywhere, or what C code gives."""
    shape, around = shape_code(_with_room(shape_of(slot, program), room)), layers(slot)
    start = program.starts.get(slot.name)
    if start is None:
        value = f"np.zeros({shape}, {dtype})"
    elif slot.name not in found:
        assert isinstance(start, ir.Comp) and isinstance(start.body, ir.Const)
        number = constant(start.body)
        value = f"np.zeros({shape}, {dtype})" if number == "0" else f"np.full({shape}, {number}, {dtype})"
    elif around and is_stacked(slot, start):
        value = f"{found[slot.name]}[{', '.join(loops[: len(around)])}]"
    elif len(start.shape) < len(slot.input.shape) - len(around):  # the same in all steps of a scan
        value = f"np.broadcast_to({found[slot.name]}, {shape}).copy()"
    else:
        value = f"{found[slot.name]}.copy()" if around else found[slot.name]
    return _for_layers(slot, loops, f"{one_of(cache, slot).format(*loops)} = {value}")


def _step(shell: Shell, model: p.Instance, program: StepProgram) -> str:
    entry = shell.entry("step")
    assert entry is not None
    low = Lowering(shell.text.dtype)
    cache, room = cache_names(low, program, list(program.inputs))
    ordered, checks = checks_of_step(low, cache, model, program)
    length = argument(program.length.name)
    call = Call([], [], Names({*low.taken, cache, room, length, "params", "state", "seed"}), {})
    loops = [call.names.fresh(x) for x in LOOPS]
    state = _tables(shell, entry, program.unit, call)
    call.prologue += checks
    call.arguments = ["params", cache, *map(argument, ordered), *state, *(["seed=0"] if entry.seed else [])]
    if entry.seed:
        call.fields["seed"] = SEED
    _given(shell, low, call, entry, {n: program.inputs[n] for n in ordered})
    told = [*(argument(s.name) for s in sizes_of(program)), length, *([room] if bounded(model, program) else [])]
    call.fields |= dict(zip(entry.sizes, told, strict=True))
    if bounded(model, program):
        call.prologue.append(f'{room} = {cache}["length"]')
    fields = {x.name: x for x in (*entry.inputs, *entry.results)}
    for slot in program.slots:
        at = call.names.fresh(f"{slot.name}_at".replace(".", "_"))
        shape = shape_code(_with_room(shape_of(slot, program), room))
        one = f"{shell.own('kept_at')}({cache}, {_name(slot, loops)}, {shape}, {_dtype(shell, slot)})"
        around = layers(slot)
        if around:
            each = " ".join(f"for {x} in range({size_code(s.length)})" for x, s in zip(loops, around, strict=False))
            one = f"np.array([{one} {each}], np.uint64)"
        call.prologue.append(f"{at} = {one}")
        call.fields[fields[f"cache {slot.name}"].field] = f"{shell.own('address')}({at})" if around else at
    fresh = [x for x in entry.results if not x.name.startswith("cache ")]
    lines, found = results(shell, call, fresh)
    made = {x.name: line.partition(" = ")[0] for x, line in zip(fresh, lines, strict=True)}
    lines.append(call.line(shell, entry))
    for slot in program.slots:
        if slot.kind == "state":
            index = f"[{', '.join(loops[: len(layers(slot))])}]" if layers(slot) else ""
            target = one_of(cache, slot).format(*loops)
            lines += _for_layers(slot, loops, f"{target} = {made[NEXT + slot.name]}{index}")
    lines.append(f'{cache}["positions"] = {length}')
    shown = {k: found[k] for k in program.outputs}
    lines.append(f"return {next(iter(shown.values())) if len(shown) == 1 else dictionary(shown)}, {cache}")
    shell.text.used |= low.used
    doc = f"The outputs of {model.name} at one more position, and the cache, which is changed in place."
    return text_of("step", doc, call, lines)


def _tables(shell: Shell, entry: Entry | None, unit: Unit, call: Call) -> list[str]:
    """Checks of parameters and states, and pointers to those that are read; the argument for states, where needed."""
    states = entry is not None and any(x.kind == "state" for x in entry.reads)
    if entry is None:
        call.prologue += fitting(unit, False, shell.wide)
    else:
        call.prologue += tables(shell, entry, unit, states, call)
    return ["state"] * states


def _given(shell: Shell, low: Lowering, call: Call, entry: Entry, inputs: Mapping[str, ir.Input]) -> None:
    """The addresses of arguments, in the dtypes that the C code takes."""
    fields = {x.name: x for x in entry.inputs}
    for name, node in inputs.items():
        kept = low.numpy_dtype(node.dtype)
        call.fields[fields[name].field] = given(shell, call, fields[name], argument(name), kept, False)


def _dtype(shell: Shell, slot: Slot) -> str:
    if slot.input.dtype in HALVES:
        return "np.float32"
    return shell.wide if slot.input.dtype in ("float", "f32") else DTYPES[slot.input.dtype]


def _name(slot: Slot, loops: Sequence[str]) -> str:
    """The name of an entry as code: of layers, with their numbers."""
    return one_of("", slot).removeprefix("[").removesuffix("]").format(*loops)


def _with_room(shape: Sequence[Size], room: str) -> tuple[Size, ...]:
    return tuple(symbol(room) if s is ROOM or s == ROOM else s for s in shape)


def _for_layers(slot: Slot, loops: Sequence[str], line: str) -> list[str]:
    """A line for each layer, in loops over their numbers."""
    around = layers(slot)
    heads = [
        f"{'    ' * k}for {x} in range({size_code(s.length)}):"
        for k, (x, s) in enumerate(zip(loops, around, strict=False))
    ]
    return [*heads, f"{'    ' * len(around)}{line}"]
