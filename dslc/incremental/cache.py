"""The cache of a step: what of the past is kept, and how each entry goes on when one more position comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dslc.incremental.causality import NEUTRAL, Causality
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.ir.rewrite import zero
from dslc.sizes import Size, tidy
from dslc.source import NOWHERE, Span

#: reductions that can go on from where they stopped: the operation that takes in one more element
FOLDS = {"sum": "+", "prod": "*", "max": "max", "min": "min", "any": "or", "all": "and"}


@dataclass(frozen=True)
class Slot:
    """One entry of the cache: a value at all positions so far, a carried value, or one that never changes.

    A value that is only read at a bounded distance is carried at so many positions: a buffer.
    """

    kind: str  # "history", "state" or "fixed"
    name: str
    #: what the step reads; those of loops have an axis for each loop in front
    input: ir.Input
    #: the loops around it, outer first
    loops: tuple[ir.Scan, ...] = ()
    #: the axis of the positions of a history, without the axes of loops
    axis: int = 0
    #: the value before the first step, for one pass of the loops; histories start empty
    start: ir.Tensor | None = None


class Cache:
    """The entries so far, and their next values."""

    def __init__(self, causality: Causality, reserved: frozenset[str]):
        self.facts = causality
        self.newest: Size = tidy(causality.length - 1)
        self.reserved = reserved
        self.slots: list[Slot] = []
        self.updates: dict[str, ir.Tensor] = {}
        #: next values of entries that a loop has for each pass, by the innermost loop
        self.leaving: dict[int, list[tuple[Slot, ir.Tensor]]] = {}

    def slot(
        self,
        kind: str,
        node: ir.Node,
        shape: tuple[Size, ...],
        dtype: str,
        start: ir.Tensor | None = None,
        axis: int = 0,
    ) -> Slot:
        """A new entry for a value of a node, one for each pass of the loops around it."""
        loops = tuple(sorted((self.facts.scans[n] for n in self.facts.loops[node]), key=self._depth))
        base = name_of(node) or kind
        taken = {x.name for x in self.slots} | self.reserved
        name, k = base, 2
        while name in taken:
            name, k = f"{base}{k}", k + 1
        full = (*(x.length for x in loops), *shape)
        made = Slot(kind, name, ir.intern(ir.Input(f"cache {name}", "cache", dtype, full)), loops, axis, start)
        self.slots.append(made)
        return made

    def _depth(self, scan: ir.Scan) -> int:
        return len(self.facts.loops[scan])

    def kept(self, slot: Slot, node: ir.Node, name: str = "") -> ir.Tensor:
        """An entry as the step reads it: in a loop, that of the current pass."""
        shape = slot.input.shape[len(slot.loops) :]
        at = tuple(ir.intern(ir.At(number_of(x))) for x in slot.loops)
        body = ir.read(slot.input, (*at, *(ir.plain(i) for i in range(len(shape)))))
        return ir.comp(shape, body, name=name or f"{slot.name}_before", span=_span(node))

    def update(self, slot: Slot, value: ir.Tensor) -> None:
        """Say what an entry is after the step."""
        if slot.loops:
            self.leaving.setdefault(slot.loops[-1].number, []).append((slot, value))
        else:
            self.updates[slot.name] = value

    def stacked(self, scan: ir.Scan, made: ir.Scan, slot: Slot, number: int, value: ir.Tensor) -> None:
        """The next value of an entry has become a result of the loop around it."""
        part = ir.intern(ir.Part(made, number, value.dtype, (scan.length, *value.shape), value.name))
        outer = [x.number for x in slot.loops].index(scan.number)
        if outer:
            self.leaving.setdefault(slot.loops[outer - 1].number, []).append((slot, part))
        else:
            self.updates[slot.name] = part

    # ---- kinds of entries

    def fixed(self, node: ir.Tensor) -> ir.Tensor:
        """A value that is the same in all steps."""
        slot = self.slot("fixed", node, node.shape, node.dtype, start=node)
        return self.kept(slot, node, slot.name)

    def history(self, node: ir.Tensor, axis: int, element: ir.Tensor) -> ir.Tensor:
        """A value at all positions so far: those that are kept, and the newest."""
        slot = self.slot("history", node, node.shape, node.dtype, axis=axis)
        return self._grown(slot, node, axis, self.kept(slot, node, f"{slot.name}_seen"), self.newest, element)

    def buffer(self, node: ir.Tensor, axis: int, element: ir.Tensor, reach: int) -> ir.Tensor:
        """A value at the newest position and `reach` ones before it, 0 where there is none: all move on by one."""
        shape = (*node.shape[:axis], reach + 1, *node.shape[axis + 1 :])
        slot = self.slot("state", node, shape, node.dtype, start=_start(node, shape, zero(node.dtype)))
        places: list[ir.Place] = [ir.plain(i) for i in range(len(shape))]
        places[axis] = ir.affine(((axis, 1),), 1)
        body = ir.read(self.kept(slot, node), tuple(places), zero(node.dtype))
        return self._grown(slot, node, axis, ir.comp(shape, body, span=_span(node)), reach, element)

    def _grown(
        self, slot: Slot, node: ir.Tensor, axis: int, base: ir.Tensor, place: Size, element: ir.Tensor
    ) -> ir.Tensor:
        """An entry with the newest element put where it has 0."""
        rest = without(base.shape, frozenset((axis,)))
        places: list[ir.Place] = [ir.plain(i) for i in range(len(rest))]
        places.insert(axis, ir.affine((), place))
        body, name = ir.whole(element), f"{slot.name}_seen"
        grown = ir.Scatter(base.shape, rest, tuple(places), "+", body, base, node.dtype, name, _span(node))
        self.update(slot, ir.intern(grown))
        return ir.intern(grown)

    def running(self, node: ir.Node, op: str, element: ir.Tensor) -> ir.Tensor:
        """A reduction that goes on: the value before, and the newest element."""
        start = _start(node, element.shape, _constant(NEUTRAL[op], element.dtype))
        slot = self.slot("state", node, element.shape, element.dtype, start=start)
        body = ir.op(FOLDS[op], (ir.whole(self.kept(slot, node)), ir.whole(element)), element.dtype)
        value = ir.comp(element.shape, body, name=str(getattr(node, "name", "")), span=_span(node))
        self.update(slot, value)
        return value


def _span(node: ir.Node) -> Span:
    return getattr(node, "span", NOWHERE)


def _start(node: ir.Node, shape: tuple[Size, ...], value: ir.Const) -> ir.Tensor:
    return ir.comp(shape, value, name=f"{name_of(node) or 'state'}_start", span=_span(node))


def _constant(value: object, dtype: str) -> ir.Const:
    assert isinstance(value, bool | float)
    whole = dtype in ("i32", "i64") and value in (0.0, 1.0)
    return ir.const(int(value) if whole else value, dtype)


def without(shape: Sequence[Size], axes: frozenset[int]) -> tuple[Size, ...]:
    return tuple(s for a, s in enumerate(shape) if a not in axes)


def number_of(scan: ir.Scan) -> ir.Step:
    """The number of the step of a loop."""
    numbers = (x for x in ir.inside(scan)[0] if isinstance(x, ir.Step) and x.scan == scan.number and x.kind == "number")
    return next(numbers, None) or ir.intern(ir.Step("number", scan.number, 0, "i64", (), ir.counter_of(scan)))


def is_costly(node: ir.Node) -> bool:
    """Is a value that never changes worth an entry of the cache? Parameters, views of them and constants are not."""
    while True:
        match node:
            case ir.Input():
                return node.role == "input"
            case ir.Step():
                return node.kind == "carry"
            case ir.Comp() if node.op is None and not any(isinstance(s, ir.Read) for s in ir.scalars(node.body)):
                return False
            case ir.Comp() if node.op is None and isinstance(node.body, ir.Read) and node.body.outside is None:
                if any(isinstance(x, ir.Data) for x in node.body.places):
                    return True
                node = node.body.tensor
            case ir.Reshape():
                node = node.of
            case _:
                return True


def layers(slot: Slot) -> tuple[ir.Scan, ...]:
    """The loops around an entry for whose passes it is kept one by one; they stand outside of all scans."""
    return tuple(x for x in slot.loops if x.kind == "layers")


def is_stacked(slot: Slot, start: ir.Tensor) -> bool:
    """Does the start of an entry differ from pass to pass of the loops around it?"""
    return bool(slot.loops) and len(start.shape) == len(slot.input.shape)


def is_entry(node: ir.Node) -> bool:
    """Is a node an entry of the cache, or that of one pass of a loop?"""
    if isinstance(node, ir.Comp) and ir.slice_of_input(node):
        assert isinstance(node.body, ir.Read)
        node = node.body.tensor
    return isinstance(node, ir.Input) and node.role == "cache"


def newest(node: ir.Scatter) -> tuple[int, Size]:
    """The axis of the positions of an entry that grows, and where its newest element goes."""
    for axis, place in enumerate(node.places):
        if isinstance(place, ir.Affine) and not place.terms:
            return axis, place.offset
    raise AssertionError("an entry of the cache grows at one position")
