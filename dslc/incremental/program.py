"""The step of a model: the axis it goes along, its program, and the program that makes its cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dslc.builder.build import Unit
from dslc.check import program as p
from dslc.incremental.cache import Slot
from dslc.incremental.causality import Reason, odd_shape
from dslc.incremental.derive import NoStep, derive
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Copy
from dslc.passes.transform import Transform
from dslc.sizes import Symbol, show
from dslc.source import NOWHERE, Span

#: entries of a cache that are no values: how many positions it has seen, and for how many it has room
RESERVED = ("positions", "length")


@dataclass
class StepProgram:
    """One more position: results and next entries of the cache; `starts` are the entries before the first position."""

    unit: Unit
    #: the number of positions so far, with the newest one
    length: Symbol
    slots: list[Slot]
    outputs: dict[str, ir.Tensor]
    updates: dict[str, ir.Tensor]
    starts: dict[str, ir.Tensor]
    #: inputs at one position, by name
    inputs: dict[str, ir.Input] = field(default_factory=dict)


def entry_of(size: Symbol) -> str:
    """The entry of a cache that keeps a size: its name, unless another entry has that.

    >>> from dslc.sizes import symbol
    >>> [entry_of(symbol(x)) for x in ("N", "length", "length_")]
    ['N', 'length_', 'length__']
    """
    return f"{size.name}_" if size.name.rstrip("_") in RESERVED else size.name


def open_sizes(unit: Unit) -> list[Symbol]:
    """The symbols that are the size of an axis of an input."""
    sizes = (s for x in unit.inputs.values() if x.role == "input" for s in x.shape)
    return list(dict.fromkeys(s for s in sizes if isinstance(s, Symbol)))


def bounded(model: p.Instance, program: StepProgram) -> bool:
    """Must the number of positions be known when the cache is made?"""
    sides = [x for c in model.where for x in (c.left, c.right) if not isinstance(x, int)]
    limited = any(program.length in x.free_symbols for x in sides)
    return limited or any(x.kind == "history" for x in program.slots)


def grows(tensor: p.Tensor, program: StepProgram) -> bool:
    """Does the bound of the numbers of an input depend on the length of the sequence?"""
    return program.length in getattr(tensor.below, "free_symbols", ())


def step_program(unit: Unit, outputs: Mapping[str, ir.Tensor], model: Span = NOWHERE) -> StepProgram:
    """The step along the one axis that has a past to remember; raises NoStep with the reasons against each axis.

    An axis whose positions have nothing to do with each other, such as that of a batch, has none. `model` is where the
    model is defined: reasons name lines of its file.
    """
    found: list[StepProgram] = []
    reasons: list[Reason] = []
    sizes = open_sizes(unit)
    reserved = frozenset((*RESERVED, *map(entry_of, sizes)))
    for length in sizes:
        try:
            _check_inputs(unit, length)
            made = derive(outputs, length, model.source, reserved)
        except NoStep as none:
            reasons.append(_titled(none.reason, length, model))
            continue
        if not made.remembers:
            reasons.append(Reason(f"{show(length)}: no position depends on earlier ones"))
            continue
        inputs = {n: made.inputs.get(n) or _at_one(x, length) for n, x in unit.inputs.items() if length in x.shape}
        starts = starts_of(made.slots)
        found.append(StepProgram(unit, length, made.slots, made.outputs, made.updates, starts, inputs))
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(show(x.length) for x in found)
        raise NoStep(Reason(f"both {names} could be the sequence"))
    if not reasons:
        raise NoStep(Reason("no input has an axis of open size"))
    raise NoStep(reasons[0] if len(reasons) == 1 else Reason("; ".join(map(str, reasons))))


def _check_inputs(unit: Unit, length: Symbol) -> None:
    """Every input has one position at each step, or none at all; one that no result needs, too."""
    for name, node in unit.inputs.items():
        if odd := odd_shape(node.shape, length):
            raise NoStep(Reason(f"`{name}` {odd}"))


def _at_one(node: ir.Input, length: Symbol) -> ir.Input:
    """An input at one position, which no result needs."""
    return ir.intern(replace(node, shape=tuple(s for s in node.shape if s != length)))


def _titled(reason: Reason, length: Symbol, model: Span) -> Reason:
    """A reason with the axis that it is against, and with a line of the spec even if it lies in the library."""
    of = reason.of
    if of is None and reason.span.source is not model.source and model.source.text:
        of = Reason("the model", model)
    return replace(reason, text=f"{show(length)}: {reason.text}", of=of)


def starts_of(slots: list[Slot]) -> dict[str, ir.Tensor]:
    """The entries of the cache before the first position, but for histories.

    One that differs from pass to pass of the loops around it has an axis for each loop in front.
    """
    pruned = _Pruned()
    return {x.name: pruned.tensor(pruned.stacked(x.start, x.loops)) for x in slots if x.start is not None}


class _Pruned(Transform):
    """Values without what only other values of the same node need: that may depend on the sequence."""

    def __init__(self) -> None:
        super().__init__()
        #: by the number of a loop and the carried values that are left: the number of the loop with these, and its body
        self.copies: dict[tuple[int, tuple[int, ...]], tuple[int, Copy]] = {}

    def visit(self, node: ir.Node) -> ir.Node:
        match node:
            case ir.Part(of=ir.Custom() as custom):
                return custom.values[node.number]
            case ir.Part(of=ir.Scan() as scan):
                carry = node.number - len(scan.results)
                if carry < 0:
                    return self.restricted(scan, scan.results[node.number])
                places = _needed(scan.carries[carry], scan, {carry})
                return ir.intern(replace(node, of=self.loop(scan, places, ()), number=places.index(carry)))
        return node

    def stacked(self, value: ir.Tensor, loops: tuple[ir.Scan, ...]) -> ir.Tensor:
        """A value of the body of loops, for all passes: loops of their own, with the carried values that it needs."""
        numbers = {x.number for x in loops}
        if not any(isinstance(x, ir.Step) and x.scan in numbers for x in ir.schedule((value,))):
            return value
        for scan in reversed(loops):
            value = self.restricted(scan, value)
        return value

    def restricted(self, scan: ir.Scan, value: ir.Tensor) -> ir.Part:
        """One value of the body of a loop for all steps, in a loop with the carried values that it needs."""
        made = self.loop(scan, _needed(value, scan, set()), (value,))
        return ir.intern(ir.Part(made, 0, value.dtype, (scan.length, *value.shape), value.name))

    def loop(self, scan: ir.Scan, places: list[int], results: tuple[ir.Tensor, ...]) -> ir.Scan:
        """A loop with some of its carried values, and with other results."""
        if places == list(range(len(scan.starts))):
            return ir.intern(replace(scan, results=results))
        key = scan.number, tuple(places)
        if key not in self.copies:
            self.copies[key] = ir.fresh_number(), Copy({})
        number, copy = self.copies[key]
        carries = tuple(scan.carries[k] for k in places)
        for x in ir.schedule((*carries, *results)):
            if isinstance(x, ir.Step) and x.scan == scan.number:
                place = places.index(x.place) if x.kind == "carry" else 0
                copy.done[x] = ir.intern(replace(x, scan=number, place=place))
        starts = tuple(scan.starts[k] for k in places)
        carries, results = tuple(map(copy.tensor, carries)), tuple(map(copy.tensor, results))
        return ir.intern(replace(scan, number=number, starts=starts, carries=carries, results=results))


def _needed(value: ir.Tensor, scan: ir.Scan, wanted: set[int]) -> list[int]:
    """The carried values of a loop that a value of its body needs, and those wanted anyway."""
    places = set(wanted)
    while True:
        order = ir.schedule((value, *(scan.carries[k] for k in places)))
        more = places | {
            x.place for x in order if isinstance(x, ir.Step) and x.scan == scan.number and x.kind == "carry"
        }
        if more == places:
            return sorted(places)
        places = more
