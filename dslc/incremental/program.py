"""The step of a model: the axis it goes along, its program, and the program that makes its cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dslc.incremental.cache import Slot
from dslc.incremental.causality import Reason
from dslc.incremental.derive import NoStep, derive
from dslc.ir import nodes as ir
from dslc.ir.build import Unit
from dslc.ir.rewrite import Substitute
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


def open_sizes(unit: Unit) -> list[Symbol]:
    """The symbols that are the size of an axis of an input."""
    sizes = (s for x in unit.inputs.values() if x.role == "input" for s in x.shape)
    return list(dict.fromkeys(s for s in sizes if isinstance(s, Symbol)))


def step_program(unit: Unit, outputs: Mapping[str, ir.Tensor], model: Span = NOWHERE) -> StepProgram:
    """The step along the one axis that has a past to remember; raises NoStep with the reasons against each axis.

    An axis whose positions have nothing to do with each other, such as that of a batch, has none. `model` is where the
    model is defined: reasons name lines of its file.
    """
    found: list[StepProgram] = []
    reasons: list[Reason] = []
    sizes = open_sizes(unit)
    reserved = frozenset((*RESERVED, *(s.name for s in sizes)))
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
        growing = [s for s in node.shape if length in getattr(s, "free_symbols", ())]
        if growing not in ([], [length]):
            raise NoStep(Reason(f"`{name}` has the sequence along more than one axis, or not as such"))


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
    return {x.name: _Pruned().tensor(_stacked(x.start, x.loops)) for x in slots if x.start is not None}


class _Pruned(Transform):
    """Values without what only other values of the same node need: that may depend on the sequence."""

    def visit(self, node: ir.Node) -> ir.Node:
        match node:
            case ir.Part(of=ir.Custom() as custom):
                return custom.values[node.number]
            case ir.Part(of=ir.Scan() as scan):
                carry = node.number - len(scan.results)
                made = _restricted(scan, scan.results[node.number] if carry < 0 else scan.carries[carry])
                return made if carry < 0 else _last(node, scan, carry)
        return node


def _last(node: ir.Part, scan: ir.Scan, carry: int) -> ir.Part:
    """A carried value after the last step of a loop that has no more than it needs."""
    places, _ = _needed(scan.carries[carry], scan, {carry})
    part = _restricted(scan, None, set(places))
    return ir.intern(replace(node, of=part.of, number=places.index(carry)))


def _stacked(value: ir.Tensor, loops: tuple[ir.Scan, ...]) -> ir.Tensor:
    """A value of the body of loops, for all passes: loops of their own, with the carried values that it needs."""
    numbers = {x.number for x in loops}
    if not any(isinstance(x, ir.Step) and x.scan in numbers for x in ir.schedule((value,))):
        return value
    for scan in reversed(loops):
        value = _restricted(scan, value)
    return value


def _restricted(scan: ir.Scan, value: ir.Tensor | None, wanted: set[int] | None = None) -> ir.Part:
    """One value of the body of a loop for all steps, in a loop with the carried values that it needs."""
    places, carries = _needed(value, scan, wanted or set())
    roots = [*carries, *([] if value is None else [value])]
    own: dict[ir.Node, ir.Node] = {
        x: ir.intern(replace(x, place=places.index(x.place)))
        for x in ir.schedule(tuple(roots))
        if isinstance(x, ir.Step) and x.scan == scan.number and x.kind == "carry"
    }
    if any(a is not b for a, b in own.items()):
        change = Substitute({}, plain=own)
        carries = [change.tensor(x) for x in carries]
        value = None if value is None else change.tensor(value)
    starts = tuple(scan.starts[k] for k in places)
    results = () if value is None else (value,)
    made = ir.Scan(scan.number, scan.length, scan.reverse, starts, tuple(carries), results, scan.name, scan.span)
    first = carries[0] if value is None else value
    shape = first.shape if value is None else (scan.length, *first.shape)
    return ir.intern(ir.Part(ir.intern(made), 0, first.dtype, shape, first.name))


def _needed(value: ir.Tensor | None, scan: ir.Scan, wanted: set[int]) -> tuple[list[int], list[ir.Tensor]]:
    """The carried values of a loop that a value of its body needs, those wanted anyway, and how they go on."""
    places = set(wanted)
    while True:
        order = ir.schedule((*([] if value is None else [value]), *(scan.carries[k] for k in places)))
        steps = [x for x in order if isinstance(x, ir.Step) and x.scan == scan.number]
        more = places | {x.place for x in steps if x.kind == "carry"}
        if more == places:
            return sorted(places), [scan.carries[k] for k in sorted(places)]
        places = more
