"""Which values may be remembered: at fixed positions they are the same however long the sequence grows.

    y[t] = sum over s of (x[s] if s <= t else 0)     remains when the sequence grows: later summands are 0
    m    = sum over s of x[s]                         does not: it is another number for each length

A value is `settled` when each of its elements needs no position after the last one among its own. A model whose results
are settled is causal; a value that is not has a reason, the line of the spec where it looks ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dslc.ir import nodes as ir
from dslc.ir.bounds import FACTS, Linear, decided_beyond, highest, step_variable
from dslc.ir.naming import name_of
from dslc.meaning.known import INF, Value, value_given
from dslc.sizes import Size, Symbol, product, show, tidy
from dslc.source import NOWHERE, Source, Span

#: what a summand must be to have no part in a reduction
NEUTRAL: dict[str, Value] = {"sum": 0.0, "prod": 1.0, "max": -INF, "min": INF, "any": False, "all": True}
NEUTRAL |= {"argmax": -INF, "argmin": INF}  # the first of equals, and the first position is never later than another
RUNNING = ("cumsum", "cumprod", "cummax", "cummin")


@dataclass(frozen=True)
class Reason:
    """Why a value is not settled, or why there is no step; `of` is what it means for a value of the spec itself."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)
    of: Reason | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """
        >>> str(Reason("`a` looks ahead", of=Reason("`y`")))
        '`a` looks ahead, for `y`'
        """
        span = self.span
        where = f" ({span.place})" if span.source.text else ""
        return f"{self.text}{where}" + ("" if self.of is None else f", for {self.of}")


class Causality:
    """What is known of the nodes of a program for one symbol, the length of the sequence."""

    def __init__(self, outputs: Sequence[ir.Tensor], length: Symbol, spec: Source | None = None):
        self.length = length
        #: the text of the spec itself, whose lines tell a user more than those of the library
        self.spec = spec
        #: why a node is not settled, None if it is
        self.late: dict[ir.Node, Reason | None] = {}
        #: does it depend on inputs that have a position?
        self.fed: dict[ir.Node, bool] = {}
        #: does it depend neither on these nor on the length?
        self.fixed: dict[ir.Node, bool] = {}
        #: the scans other than over the sequence in whose steps it is computed
        self.loops: dict[ir.Node, frozenset[int]] = {}
        #: scans by number
        self.scans: dict[int, ir.Scan] = {}
        #: what a value is where its position along the second axis is after that along the first
        self.beyond: dict[ir.Node, dict[tuple[int, int], Value]] = {}
        self._visit(ir.schedule(tuple(outputs)))

    # ---- sizes and axes

    def grows(self, size: Size) -> bool:
        """Does a size depend on the length?"""
        return not isinstance(size, int) and self.length in size.free_symbols

    def axes(self, shape: Sequence[Size]) -> tuple[int, ...]:
        """The axes along the sequence."""
        return tuple(a for a, size in enumerate(shape) if size == self.length)

    def over_sequence(self, scan: ir.Scan) -> bool:
        """Is a scan one along the sequence, first position first?"""
        return scan.length == self.length and not scan.reverse and scan.kind != "layers"

    # ---- the walk

    def _visit(self, order: Sequence[ir.Node]) -> None:
        for node in order:
            if isinstance(node, ir.Scan):
                self._scan(node)
                continue
            if isinstance(node, ir.Step) and node in self.late:
                continue
            below = self._below(node)
            shapes = _shapes(node)
            given = isinstance(node, ir.Input) and any(map(self.grows, node.shape)) and node.role == "input"
            self.fed[node] = given or any(self.fed[a] for a in below)
            self.loops[node] = frozenset[int]().union(*(self.loops[a] for a in ir.arguments(node)))
            self.fixed[node] = (
                not given and all(self.fixed[a] for a in below) and not any(map(self.grows, _sizes(node)))
            )
            late = None if self.fixed[node] else self._odd_axis(node, shapes) or self._late(node)
            self.late[node] = None if late is None else self._located(node, late)
            if isinstance(node, ir.Comp) and len(self.axes(node.shape)) > 1:
                self.beyond[node] = self._values_beyond(node)

    def _below(self, node: ir.Node) -> Sequence[ir.Node]:
        """What a node depends on: of a node with several values, a part of it depends on what makes its own."""
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Custom):
            return (node.of.values[node.number],)
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            return (*node.of.results, *node.of.carries)[node.number : node.number + 1]
        return ir.arguments(node)

    def _scan(self, scan: ir.Scan) -> None:
        """Carried values are taken to be settled until a step shows that they are not."""
        self.scans[scan.number] = scan
        inner = ir.inside(scan)[0]
        below = ir.arguments(scan)
        loops = frozenset[int]().union(*(self.loops[a] for a in below))
        timed = self.over_sequence(scan)
        grows = self.grows(scan.length)
        carries = [x for x in inner if isinstance(x, ir.Step) and x.scan == scan.number and x.kind == "carry"]
        own = [x for x in inner if isinstance(x, ir.Step) and x.scan == scan.number]
        for step in own:
            carried = step.kind == "carry"
            start = scan.starts[step.place] if carried else None
            self.loops[step] = loops if timed else loops | {scan.number}
            self.fed[step] = start is not None and self.fed[start]
            self.fixed[step] = not grows and (start is None or self.fixed[start])
            self.late[step] = None if start is None else self.late[start]
        while True:
            self._visit(inner)
            changed = False
            for step in carries:
                update = scan.carries[step.place]
                facts = (
                    self.fed[step] or self.fed[update],
                    self.fixed[step] and self.fixed[update],
                    self.late[step] or self.late[update],
                )
                changed |= facts != (self.fed[step], self.fixed[step], self.late[step])
                self.fed[step], self.fixed[step], self.late[step] = facts
            if not changed:
                break
        self.fed[scan] = any(self.fed[x] for x in (*below, *scan.carries, *scan.results))
        self.fixed[scan] = not grows and all(self.fixed[x] for x in (*scan.starts, *scan.carries, *scan.results))
        self.loops[scan] = loops
        self.late[scan] = None
        if grows and not timed:
            how = "runs backwards" if scan.length == self.length else f"runs over {show(scan.length)} steps"
            self.late[scan] = Reason(f"the scan {how}", scan.span)

    # ---- why a node is not settled

    def _odd_axis(self, node: ir.Node, shapes: Sequence[Sequence[Size]]) -> Reason | None:
        found = next((x for shape in shapes if (x := odd_axis(shape, self.length))), "")
        return self.reason(node, found) if found else None

    def _located(self, node: ir.Node, reason: Reason) -> Reason:
        """A reason from the library gets the first line of the spec that it holds for."""
        span: Span = getattr(node, "span", NOWHERE)
        known = reason.of is not None or reason.span.source is self.spec
        if self.spec is None or known or span.source is not self.spec or not name_of(node):
            return reason
        return replace(reason, of=Reason(f"`{name_of(node)}`", span))

    def reason(self, node: ir.Node, text: str) -> Reason:
        name = name_of(node)
        return Reason(f"{f'`{name}`' if name else 'a value'} {text}", getattr(node, "span", NOWHERE))

    def _late(self, node: ir.Node) -> Reason | None:
        match node:
            case ir.Input():
                odd = odd_shape(node.shape, self.length)
                return self.reason(node, odd) if odd else None
            case ir.Comp():
                return self._comp(node)
            case ir.Scatter():
                return self._scatter(node)
            case ir.Reshape():
                kept = kept_axes(node, self.length)
                lost = [a for a in self.axes(node.of.shape) if a not in kept]
                return self.late[node.of] or (self.reason(node, "groups positions with others") if lost else None)
            case ir.Along():
                if node.args[0].shape[node.axis] == self.length and (node.op not in RUNNING or node.reverse):
                    return self.reason(node, f"is a `{node.op}` along the whole sequence")
            case ir.External():
                if any(self.grows(s) for x in node.args for s in x.shape[node.mapped :]):
                    return self.reason(node, f"is a `{node.op}` of matrices along the sequence")
            case ir.Part():
                return self._part(node)
        return next((self.late[a] for a in ir.arguments(node) if self.late[a] is not None), None)

    def _part(self, node: ir.Part) -> Reason | None:
        of = node.of
        if isinstance(of, ir.Custom):
            return self.late[of.values[node.number]]
        if not isinstance(of, ir.Scan):
            return self.late[of]
        carry = node.number - len(of.results)
        if self.late[of] is not None:
            return self.late[of]
        if carry >= 0 and self.over_sequence(of):
            return self.late[of.carries[carry]] or self.reason(node, "is the value after the last position")
        return self.late[of.carries[carry] if carry >= 0 else of.results[node.number]]

    def _comp(self, node: ir.Comp) -> Reason | None:
        sizes = (*node.shape, *node.reduced)
        for number in range(len(node.shape), len(sizes)):
            if not self.grows(sizes[number]):
                continue
            if sizes[number] != self.length or not self._bounded(node, number):
                text = "takes in positions that are still to come" + self._mask(node, number)
                return self._inner_reason(node.body) or self.reason(node, text)
        return self._scalars(node, node.body, sizes)

    def _inner_reason(self, body: ir.Scalar) -> Reason | None:
        reads = (s.tensor for s in ir.scalars(body) if isinstance(s, ir.Read))
        return next((self.late[x] for x in reads if self.late.get(x) is not None), None)

    def _bounded(self, node: ir.Comp, later: int) -> bool:
        """Do summands after a position of the result, or after the step of a scan, have no part in it?"""
        wanted = NEUTRAL.get(node.op or "")
        return wanted is not None and any(
            self._value_beyond(node.body, later, earlier) == wanted for earlier in self._positions(node)
        )

    def _positions(self, node: ir.Comp) -> list[int]:
        """The variables that are a position of the result, or the step of a scan along the sequence."""
        reads = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
        steps = sorted({x.scan for x in reads if isinstance(x, ir.Step) and x.kind == "number"})
        timed = [step_variable(n) for n in steps if self.over_sequence(self.scans[n])]
        return [*self.axes(node.shape), *timed]

    def _mask(self, node: ir.Comp, later: int) -> str:
        """What later summands are given that still have a part in a reduction, and what would leave them out."""
        wanted = NEUTRAL.get(node.op or "")
        choices = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read) or getattr(s, "name", "") == "select"]
        for earlier in self._positions(node):
            for s in (node.body, *choices):
                found = self._value_beyond(s, later, earlier)
                if found is not None and wanted is not None and found != wanted:
                    return f": masked by {_shown(found)} they count, masked by {_shown(wanted)} they would not"
        return ""

    def _value_beyond(self, body: ir.Scalar, later: int, earlier: int) -> Value:
        """What a body comes to where one variable is greater than another."""

        def known(s: ir.Scalar) -> Value:
            if isinstance(s, ir.Read) and s.outside is None:
                for (a, b), value in self.beyond.get(s.tensor, {}).items():
                    if s.places[a] is ir.plain(earlier) and s.places[b] is ir.plain(later):
                        return value
            return decided_beyond(s, later, earlier)

        return value_given(body, known)

    def _values_beyond(self, node: ir.Comp) -> dict[tuple[int, int], Value]:
        axes = self.axes(node.shape)
        found: dict[tuple[int, int], Value] = {}
        for a in axes:
            for b in axes:
                value = self._value_beyond(node.body, b, a) if a != b else None
                # a reduction of equal values is that value, or if it is neutral
                same = node.op in (None, "max", "min", "any", "all")
                neutral = node.op in ("sum", "prod") and value == NEUTRAL[node.op]
                if value is not None and (same or neutral):
                    found[a, b] = value
        return found

    def _scatter(self, node: ir.Scatter) -> Reason | None:
        plain = {p.terms[0][0]: a for a, p in enumerate(node.places) if isinstance(p, ir.Affine) and len(p.terms) == 1}
        kept = {n for n, a in plain.items() if node.shape[a] == self.length and node.places[a] is ir.plain(n)}
        if any(self.grows(size) and n not in kept for n, size in enumerate(node.ranges)):
            return self._inner_reason(node.body) or self.reason(node, "adds up over the whole sequence")
        if len(kept) != len(self.axes(node.shape)):
            return self.reason(node, "goes to positions that are data")
        if node.base is not None and self.late[node.base] is not None:
            return self.late[node.base]
        for body in ir.bodies(node):
            found = self._scalars(node, body, node.ranges)
            if found is not None:
                return found
        return None

    def _scalars(self, node: ir.Node, body: ir.Scalar, sizes: Sequence[Size]) -> Reason | None:
        for s in ir.scalars(body):
            match s:
                case ir.SizeOf() if self.grows(s.size):
                    return self.reason(node, f"depends on the length {show(self.length)}")
                case ir.Rand() if any(map(self.grows, s.sizes[1:])):
                    return self.reason(node, f"draws random numbers that depend on the length {show(self.length)}")
                case ir.Read():
                    late = self.late[s.tensor]
                    if late is not None:
                        return late
                    for place, size in zip(s.places, s.tensor.shape, strict=True):
                        text = self._place(place, size, sizes)
                        if text:
                            return self.reason(node, text)
        return None

    def _place(self, place: ir.Place, size: Size, sizes: Sequence[Size]) -> str:
        """What is wrong with a place: nothing if no later position is read than those of the result."""
        if isinstance(place, ir.Affine) and any(map(self.grows, (place.offset, *(c for _, c in place.terms)))):
            return f"reads a position that depends on the length {show(self.length)}"
        if size != self.length:
            return ""
        match place:
            case ir.Data():
                return "reads positions that are data"
            case ir.At():
                timed = self.over_sequence(self.scans[place.step.scan])
                good = timed and FACTS.nonnegative(tidy(-place.offset))
                return "" if good else "reads positions that are still to come"
        if place.mode == "wrap":
            return "reads positions that wrap around"
        if place.divisor != 1:
            return "reads positions between others"
        whole = Linear(dict(place.terms), place.offset)
        candidates = [Linear(), *(Linear({n: 1}) for n, _ in place.terms if sizes[n] == self.length)]
        tops = [highest(whole.minus(x), sizes) for x in candidates]
        if any(top is not None and FACTS.nonnegative(tidy(-top)) for top in tops):
            return ""
        return "reads positions that are still to come"


def odd_axis(shape: Sequence[Size], length: Symbol) -> str:
    """What is wrong with an axis that grows with the sequence and is another one; empty where none does."""
    odd = (s for s in shape if s != length and not isinstance(s, int) and length in s.free_symbols)
    return next((f"has an axis of {show(s)}, which is not the sequence itself" for s in odd), "")


def odd_shape(shape: Sequence[Size], length: Symbol) -> str:
    """What is wrong with the shape of a value that has one element, or one for each position; empty where nothing is.

    >>> from dslc.sizes import symbol
    >>> S = symbol("S")
    >>> odd_shape((2, S), S), odd_shape((S, S), S), odd_shape((2, S + 1), S)
    ('', 'has S along more than one axis', 'has an axis of S + 1, which is not the sequence itself')
    """
    several = f"has {show(length)} along more than one axis" if list(shape).count(length) > 1 else ""
    return odd_axis(shape, length) or several


def kept_axes(node: ir.Reshape, length: Size) -> Mapping[int, int]:
    """Axes along the sequence that a reshape leaves alone: where they are before and after.

    >>> from dslc.sizes import symbol
    >>> x = ir.intern(ir.Input("x", "input", "f32", (2, symbol("T"), 6)))
    >>> kept_axes(ir.Reshape(x, (2, symbol("T"), 2, 3), "f32"), symbol("T"))
    {1: 1}
    """
    found: dict[int, int] = {}
    for a, size in enumerate(node.of.shape):
        for b, other in enumerate(node.shape):
            if size == other == length and product(node.of.shape[:a]) == product(node.shape[:b]):
                found[a] = b
    return found


def _shapes(node: ir.Node) -> tuple[tuple[Size, ...], ...]:
    if isinstance(node, ir.Along | ir.External):
        return node.shapes
    return () if isinstance(node, ir.Custom | ir.Scan) else (node.shape,)


def _sizes(node: ir.Node) -> list[Size]:
    """All sizes that a node mentions."""
    found = [s for shape in _shapes(node) for s in shape]
    found += node.reduced if isinstance(node, ir.Comp) else node.ranges if isinstance(node, ir.Scatter) else ()
    places: list[ir.Place] = list(node.places) if isinstance(node, ir.Scatter) else []
    for body in ir.bodies(node):
        for s in ir.scalars(body):
            if isinstance(s, ir.SizeOf):
                found.append(s.size)
            elif isinstance(s, ir.Rand):
                found += s.sizes
            elif isinstance(s, ir.Read):
                places += s.places
    for place in places:
        if isinstance(place, ir.Affine):
            found += [place.offset, place.divisor, *(c for _, c in place.terms)]
        elif isinstance(place, ir.At):
            found.append(place.offset)
    return found


def _shown(value: Value) -> str:
    """A number as a spec would have it.

    >>> _shown(-1e9), _shown(-INF), _shown(0.0)
    ('-1e9', '-inf', '0')
    """
    return f"{value:g}".replace("e+0", "e").replace("e+", "e") if not isinstance(value, bool) else str(value).lower()
