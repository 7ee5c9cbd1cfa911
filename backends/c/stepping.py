"""The entries `init_cache` and `step` of a sequence model: what they are handed, and what they write.

Histories are arrays with room for all positions, which a step puts the newest element into. Next values of other
entries are results, of layers with an axis for each loop in front. What starts as one number needs no C code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dslc.backends.c.checks import Promises
from dslc.backends.c.entry import History
from dslc.backends.c.interface import Field
from dslc.backends.c.target import TARGET
from dslc.backends.c.text import Names, Types
from dslc.backends.record import CannotLower

from dslc.check import program as p
from dslc.incremental.cache import Slot, layers
from dslc.incremental.program import StepProgram, bounded, open_sizes
from dslc.incremental.room import Grown
from dslc.ir import nodes as ir
from dslc.passes.narrow import HALVES
from dslc.passes.transform import everything
from dslc.pipeline import NEXT
from dslc.schedule.form import Call, Loop, Step
from dslc.schedule.prepare import prepared
from dslc.sizes import Size, Symbol, symbol

#: the room of the histories of a cache, as a size that no spec can name
ROOM = symbol("room for positions")


@dataclass
class Parts:
    """What one of the two functions is written from."""

    title: str
    outputs: dict[str, ir.Tensor]
    #: fields of sizes, by the names of their symbols
    sizes: dict[str, str]
    inputs: tuple[Field, ...]
    #: how inputs and entries of the cache are reached
    access: dict[ir.Input, tuple[str, Field]]
    results: dict[str, tuple[str, Field]]
    random: bool
    #: entries that grow in place, by the name of the node that grows them
    histories: dict[str, History] = field(default_factory=dict)
    promises: Promises = field(default_factory=Promises)

    def placed(self, steps: Sequence[Step]) -> dict[str, History]:
        """The histories with the loops that are around them in a schedule."""
        found: dict[str, History] = {}
        stack: list[tuple[Step, tuple[ir.Scan, ...]]] = [(x, ()) for x in steps]
        while stack:
            step, around = stack.pop()
            if isinstance(step, Loop):
                stack += [(x, (*around, step.scan)) for x in step.steps]
            elif isinstance(step, Call) and isinstance(step.node, ir.External) and step.node.op in self.histories:
                history = self.histories[step.node.op]
                if len(history.loops) != len(around) or step.node.op in found:
                    raise CannotLower("a history that is not kept for each pass of the loops around it", step.node)
                found[step.node.op] = replace(history, loops=around)
        return found


def sizes_of(program: StepProgram, *more: Symbol) -> list[Symbol]:
    """The sizes that a function is told, in order."""
    return [*(s for s in open_sizes(program.unit) if s is not program.length), *more]


def is_number(start: ir.Tensor) -> bool:
    """Are all elements of an entry the same number before the first position?"""
    return isinstance(start, ir.Comp) and start.op is None and isinstance(start.body, ir.Const)


def start_parts(program: StepProgram, model: p.Instance, types: Types) -> Parts:
    outputs = prepared({k: x for k, x in program.starts.items() if not is_number(x)}, TARGET)
    given = {n: x for n, x in program.unit.inputs.items() if x.role == "input" and n not in program.inputs}
    parts = _parts("init_cache", program, outputs, given, sizes_of(program), types)
    parts.promises = Promises(model.where, [x for x in model.inputs if x.name in given])
    return parts


def step_parts(program: StepProgram, model: p.Instance, types: Types) -> Parts:
    grown = Grown(program.slots, program.length, ROOM)
    changing = {NEXT + x.name: program.updates[x.name] for x in program.slots if x.kind == "state"}
    outputs = prepared(grown.outputs({**program.outputs, **changing}), TARGET)
    histories = [x for x in program.slots if x.kind == "history"]
    limited = bool(histories) or bounded(model, program)
    sizes = sizes_of(program, program.length, *([ROOM] if limited else []))
    ordered = {n: program.inputs[n] for n in program.unit.inputs if n in program.inputs}
    parts = _parts("step", program, outputs, ordered, sizes, types, program.slots)
    # positions may be those up to the last one that there is room for
    instead = {program.length: ROOM} if limited else {}
    full = f"the cache is full: {program.length.name} is more than the room that it has"
    more = [(program.length, "<=", ROOM, full)] if limited else []
    parts.promises = Promises(model.where, [x for x in model.inputs if x.name in ordered], instead, more)
    return parts


def _parts(
    title: str, program: StepProgram, outputs: dict[str, ir.Tensor], given: Mapping[str, ir.Input],
    symbols: Sequence[Symbol], types: Types, slots: Sequence[Slot] = (),
) -> Parts:  # fmt: skip
    names = Names({"params", "state", "seed"})
    sizes = {s.name: names.fresh("room" if s is ROOM else s.name) for s in symbols}
    fields = {n: Field(n, names.fresh(n), types.kept(x.dtype), x.shape) for n, x in given.items()}
    nodes = [x for x in everything(outputs) if isinstance(x, ir.Input)]
    access = {x: (f"a->{fields[x.name].field}", fields[x.name]) for x in nodes if x.role == "input"}
    inputs = [*fields.values()]
    histories: dict[str, History] = {}
    for slot in slots:
        around = tuple(_whole(x.length) for x in layers(slot))
        shape = shape_of(slot, program)
        ending = {"history": "", "state": "before"}.get(slot.kind, "")
        name = names.fresh(f"{slot.name}_{ending}".strip("_"))
        own = Field(f"cache {slot.name}", name, cached(slot.input.dtype, types), shape, around)
        if slot.kind == "history":
            newest = program.length - 1
            histories[slot.input.name] = History(f"a->{name}", own, slot.axis, newest, slot.loops)
        else:
            inputs.append(own)
            access[slot.input] = f"a->{name}", own
    results: dict[str, Field] = {}
    for k, x in outputs.items():
        dtype = types.kept(x.dtype) if k in program.outputs else cached(x.dtype, types)
        results[k] = Field(k, names.fresh(k, f"{k}_result"), dtype, x.shape)
    reached = {k: (f"a->{x.field}", x) for k, x in results.items()}
    random = any(isinstance(s, ir.Rand) for x in everything(outputs) for b in ir.bodies(x) for s in ir.scalars(b))
    return Parts(title, outputs, sizes, tuple(inputs), access, reached, random, histories)


def cached(dtype: str, types: Types) -> str:
    """The dtype of an entry of a cache: in NumPy, numbers of 16 bits are kept in 32."""
    return "f32" if dtype in HALVES else types.kept(dtype)


def shape_of(slot: Slot, program: StepProgram) -> tuple[Size, ...]:
    """The shape of one array of an entry: histories have room for more positions."""
    shape = slot.input.shape[len(layers(slot)) :]
    axis = len(slot.loops) - len(layers(slot)) + slot.axis if slot.kind == "history" else -1
    return tuple(ROOM if k == axis else s for k, s in enumerate(shape))


def _whole(size: Size) -> int:
    assert isinstance(size, int), "the number of layers is known"
    return size
