"""The program of one step: every value at the newest position only, and what it needs of the past from a cache.

The length T of the sequence stands for the number of positions so far, the newest one included, which is T - 1. A value
that is read at T - 1 alone is computed there alone. One that is read at other positions, too, is kept: its element at
T - 1 is added to its history. A scan along the sequence makes one step from the carried values that are kept.

    k[n, s, d] = x[n, s, e] * Wk[e, d]              k_now[n, d] = x_now[n, e] * Wk[e, d];  k[n, T - 1, d] <- k_now[n, d]
    score[n, t, s] = q[n, t, d] * k[n, s, d]        score[n, s] = q_now[n, d] * k[n, s, d]       for s in 0 .. T - 1
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from dslc.incremental.cache import FOLDS, Cache, Slot, is_costly, without
from dslc.incremental.causality import RUNNING, Causality, Reason, kept_axes, odd_shape
from dslc.incremental.folding import folded
from dslc.ir import nodes as ir
from dslc.ir.bounds import FACTS, Linear, highest, lies_within, lowest, scalar
from dslc.ir.rewrite import Change, Form, NotAffine, keep
from dslc.meaning.known import value_given
from dslc.passes.merge_scans import merge_scans
from dslc.sizes import Size, Symbol, show, tidy
from dslc.source import Source

#: axes of a node that are fixed at the newest position
Now = frozenset[int]
Request = tuple[ir.Node, Now]
Rule = Generator[Request, ir.Node, ir.Node]
#: a value of a loop that is wanted at the newest position: a carried one or a result, its number, its axes
Wish = tuple[str, int, tuple[int, ...]]
#: by the number of the loop
Wanted = dict[int, set[Wish]]
#: how many positions back a value is read; None: all the way
Reaches = dict[ir.Node, int | None]

ALONG = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


class NoStep(Exception):
    """There is no step along this axis."""

    def __init__(self, reason: Reason):
        super().__init__(str(reason))
        self.reason = reason


@dataclass
class Derived:
    """Results at the newest position, the entries of the cache, and their next values (of histories: with one more)."""

    outputs: dict[str, ir.Tensor]
    slots: list[Slot]
    updates: dict[str, ir.Tensor]
    #: inputs at one position
    inputs: dict[str, ir.Input]
    #: does a value at a position depend on earlier ones? Results for all positions together do not count
    remembers: bool


def derive(
    outputs: Mapping[str, ir.Tensor],
    length: Symbol,
    spec: Source | None = None,
    reserved: frozenset[str] = frozenset(),
) -> Derived:
    """The step of a program along the axes of size `length`; raises NoStep with the reason where there is none.

    `spec` is the text whose lines reasons should name; `reserved` are no names for entries of the cache.
    """
    outputs = merge_scans(outputs)  # what is known of a loop is known by its number
    causality = Causality(list(outputs.values()), length, spec)
    for name, node in outputs.items():
        axes = causality.axes(node.shape)
        if axes and (reason := causality.late[node]) is not None:
            raise NoStep(reason)
        if odd := odd_shape(node.shape, length):
            raise NoStep(causality.reason(node, odd))
        if causality.late[node] is not None and causality.fed[node] is False:
            raise NoStep(Reason(f"`{name}` depends on the length only"))
    wanted: Wanted = {}
    reaches: Reaches = {}
    while True:
        # what is wanted of a loop, and from how far back, is known when all is made: again, until nothing is new
        made = _Derivation(causality, wanted, reaches, reserved)
        results = {k: made.tensor(v, frozenset(causality.axes(v.shape))) for k, v in outputs.items()}
        if not made.grew:
            return Derived(results, made.cache.slots, made.cache.updates, made.inputs, made.remembers)


class _Derivation:
    def __init__(self, causality: Causality, wanted: Wanted, reaches: Reaches, reserved: frozenset[str]):
        self.cache = Cache(causality, reserved)
        self.reaches = reaches
        self.remembers = False
        self.facts = causality
        self.length = causality.length
        self.newest: Size = tidy(causality.length - 1)
        self.wanted = wanted
        self.grew = False
        self.done: dict[Request, ir.Node] = {}
        self.inputs: dict[str, ir.Input] = {}
        #: entries of the carried values of scans along the sequence, and those whose next value is known
        self.carriers: dict[int, dict[int, Slot]] = {}
        self.advanced: dict[int, set[int]] = {}

    # ---- the walk: rules ask for what they need, without recursion

    def tensor(self, node: ir.Node, now: Now) -> ir.Tensor:
        stack: list[tuple[Request, Rule]] = [((node, now), self._rule(node, now))]
        answer: ir.Node | None = None
        while stack:
            request, rule = stack[-1]
            try:
                asked = rule.send(answer)  # type: ignore[arg-type]
            except StopIteration as finished:
                answer = self.done[request] = finished.value
                stack.pop()
                continue
            answer = self.done.get(asked)
            if answer is None:
                stack.append((asked, self._rule(*asked)))
        return self.done[node, now]  # type: ignore[return-value]

    def _rule(self, node: ir.Node, now: Now) -> Rule:
        if self.facts.fixed[node]:
            return self._fixed(node)
        if not now and self.keeps(node):
            return self._history(node, self.facts.axes(node.shape)[0])  # type: ignore[union-attr,arg-type]
        match node:
            case ir.Input():
                return self._input(node, now)
            case ir.Step():
                return self._step(node, now)
            case ir.Comp():
                return self._comp(node, now)
            case ir.Scatter():
                return self._scatter(node, now)
            case ir.Reshape():
                return self._reshape(node, now)
            case ir.Part():
                return self._part(node, now)
            case ir.Scan():
                return self._loop(node)
        raise AssertionError(type(node).__name__)

    def keeps(self, node: ir.Node) -> bool:
        """Is a value that is read at all positions kept? It must stay as it is when the sequence grows."""
        axes = self.facts.axes(getattr(node, "shape", ()))
        return len(axes) == 1 and self.facts.late[node] is None and self.facts.fed[node]

    def note_reach(self, s: ir.Read, sizes: Sequence[Size]) -> None:
        """Take notice of how far back a value is read."""
        (axis,) = self.facts.axes(s.tensor.shape)
        place = s.places[axis]
        reach: Size | None = None
        if s.outside is not None and isinstance(place, ir.Affine) and place.mode == "inside" and place.divisor == 1:
            back = Linear({}, self.newest).minus(Linear(dict(place.terms), place.offset))
            if lies_within(back, sizes, 0, None):
                reach = highest(back, sizes)
        known = self.reaches.get(s.tensor, 0)
        found = max(known, reach) if isinstance(reach, int) and known is not None else None
        self.grew |= s.tensor not in self.reaches or found != known
        self.reaches[s.tensor] = found

    def whole(self, node: ir.Node, now: Now) -> Request:
        """Ask for a value that is needed at all positions so far, unless it is at the newest."""
        if not now and self.keeps(node):
            self.grew |= self.reaches.get(node, 0) is not None
            self.reaches[node] = None
        return node, now

    def always_inside(self, place: ir.Place, size: Size, sizes: Sequence[Size]) -> bool:
        """Does a place never leave its axis?"""
        if isinstance(place, ir.At):
            return place.offset == 0 and self.facts.scans[place.step.scan].length == size
        if place.mode != "inside":
            return True
        if isinstance(place, ir.Data) or place.divisor != 1:
            return False
        return lies_within(Linear(dict(place.terms), place.offset), sizes, 0, tidy(size - 1))

    def refuse(self, node: ir.Node, text: str) -> NoStep:
        return NoStep(self.facts.late.get(node) or self.facts.reason(node, text))

    def check_width(self, node: ir.Node, sizes: Sequence[Size]) -> None:
        """A step may go over the past, but not over all pairs of positions; and the first step must have all axes."""
        for size in sizes:
            if self.facts.grows(size) and not FACTS.nonnegative(tidy(size - 1)):
                text = f"has an axis of {show(size)}, which the first steps do not have"
                raise NoStep(self.facts.reason(node, text))
        if sum(map(self.facts.grows, sizes)) > 1:
            raise self.refuse(node, "is needed for all pairs of positions at each step")

    # ---- nodes

    def _fixed(self, node: ir.Node) -> Rule:
        """What depends neither on the tokens nor on their number is computed once, before the first step."""
        yield from ()
        return self.cache.fixed(node) if is_costly(node) else node  # type: ignore[arg-type]

    def _history(self, node: ir.Tensor, axis: int) -> Rule:
        """A value at other positions than the newest: all so far, or as many as are read."""
        element = yield node, frozenset((axis,))
        reach = self.reaches.get(node)
        if reach is None:
            return self.cache.history(node, axis, element)  # type: ignore[arg-type]
        return self.cache.buffer(node, axis, element, reach)  # type: ignore[arg-type]

    def running(self, node: ir.Node, op: str, element: ir.Tensor) -> ir.Tensor:
        self.remembers |= self.facts.late[node] is None
        return self.cache.running(node, op, element)

    def _input(self, node: ir.Input, now: Now) -> Rule:
        yield from ()
        if len(now) != 1 or any(map(self.facts.grows, without(node.shape, now))):
            raise self.refuse(node, "is needed at other positions than the newest")
        made = ir.intern(replace(node, shape=without(node.shape, now)))
        self.inputs[node.name] = made
        return made

    def _step(self, node: ir.Step, now: Now) -> Rule:
        scan = self.facts.scans[node.scan]
        yield from ()
        if len(now) != len(self.facts.axes(node.shape)):
            raise self.refuse(node, "is carried for all positions")
        if not self.facts.over_sequence(scan):
            place = self.want(scan, "carry", node.place, now)
            return ir.intern(replace(node, place=place, shape=without(node.shape, now)))
        start = scan.starts[node.place]
        if now or not self.facts.fixed[start]:
            raise NoStep(self.facts.reason(start, "starts the scan with values of the sequence"))
        slot = self.cache.slot("state", node, node.shape, node.dtype, start=start)
        self.carriers.setdefault(scan.number, {})[node.place] = slot
        self.remembers |= self.facts.late[node] is None
        return self.cache.kept(slot, node)

    def want(self, scan: ir.Scan, kind: str, number: int, now: Now) -> int:
        """Ask for a value of a loop; gives its place among the carried values or the results of the new loop."""
        found = self.wanted.setdefault(scan.number, set())
        wish = (kind, number, tuple(sorted(now)))
        self.grew |= wish not in found
        found.add(wish)
        return sorted(x for x in found if x[0] == kind).index(wish)

    def _comp(self, node: ir.Comp, now: Now) -> Rule:
        body, sizes = self.moved(node, now)
        kept = len(node.shape) - len(now)
        shape, reduced = sizes[:kept], sizes[kept:]
        growing = [n for n in range(kept, len(sizes)) if sizes[n] == self.length]
        if node.op in FOLDS and len(growing) == 1 and not any(map(self.facts.grows, shape)):
            if self.goes_on(body, growing[0]):
                return self.running(node, node.op, (yield from self._newest(node, body, shape, reduced, growing[0])))
        self.check_width(node, sizes)
        body = yield from self.readdressed(node, body, sizes)
        return ir.comp(shape, body, node.op, reduced, node.name, node.span, node.dtype)

    def moved(self, node: ir.Comp | ir.Scatter, now: Now) -> tuple[ir.Scalar, tuple[Size, ...]]:
        """A body with the variables `now` at the newest position, and the sizes of those that are left."""
        sizes = (*node.shape, *node.reduced) if isinstance(node, ir.Comp) else node.ranges
        left = [n for n in range(len(sizes)) if n not in now]
        forms = {n: Form((), self.newest) for n in now} | {n: keep(k) for k, n in enumerate(left)}
        kept = tuple(sizes[n] for n in left)
        return self.changed(node, node.body, forms, kept), kept

    def changed(self, node: ir.Node, body: ir.Scalar, forms: Mapping[int, Form], sizes: Sequence[Size]) -> ir.Scalar:
        try:
            body = Change(forms, places=self.place, scalars=self.number).scalar(body)
        except NotAffine:
            raise NoStep(self.facts.reason(node, "reads places that cannot be followed")) from None
        return folded(body, sizes)

    def place(self, place: ir.Place) -> ir.Place:
        """The step of a scan along the sequence is the newest position."""
        if isinstance(place, ir.At) and self.facts.over_sequence(self.facts.scans[place.step.scan]):
            return ir.affine((), tidy(self.newest + place.offset))
        return place

    def number(self, tensor: ir.Tensor) -> ir.Scalar | None:
        if isinstance(tensor, ir.Step) and tensor.kind == "number":
            if self.facts.over_sequence(self.facts.scans[tensor.scan]):
                return ir.intern(ir.SizeOf(self.newest))
        return None

    def goes_on(self, body: ir.Scalar, variable: int) -> bool:
        """Is each element the same at all lengths, and taken from its own position?"""
        for s in ir.scalars(body):
            match s:
                case ir.SizeOf() if self.facts.grows(s.size):
                    return False
                case ir.Rand():
                    return False
                case ir.Read():
                    if self.facts.late[s.tensor] is not None:
                        return False
                    for place, size in zip(s.places, s.tensor.shape, strict=True):
                        if size == self.length and place is not ir.plain(variable):
                            return False
                        if isinstance(place, ir.Affine) and self.facts.grows(place.offset):
                            return False
        return True

    def _newest(
        self, node: ir.Comp, body: ir.Scalar, shape: tuple[Size, ...], reduced: tuple[Size, ...], variable: int
    ) -> Generator[Request, ir.Node, ir.Tensor]:
        """What the newest position adds to a reduction."""
        sizes = (*shape, *reduced)
        left = [n for n in range(len(sizes)) if n != variable]
        forms = {variable: Form((), self.newest)} | {n: keep(k) for k, n in enumerate(left)}
        rest = tuple(sizes[n] for n in left)
        body = self.changed(node, body, forms, rest)
        body = yield from self.readdressed(node, body, rest)
        op = node.op if len(rest) > len(shape) else None
        return ir.comp(shape, body, op, rest[len(shape) :], "", node.span, node.dtype)

    def readdressed(
        self, node: ir.Node, root: ir.Scalar, sizes: Sequence[Size]
    ) -> Generator[Request, ir.Node, ir.Scalar]:
        """A body that reads the values of the step: those at the newest position lose their axis."""
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(root):
            if not isinstance(s, ir.Read):
                done[s] = ir.rebuild(s, lambda x: done[x])
                continue
            now = frozenset(a for a in self.facts.axes(s.tensor.shape) if self.is_now(s.places[a]))
            if not now and self.keeps(s.tensor):
                self.note_reach(s, sizes)
            made = yield s.tensor, now
            past = len(self.facts.axes(s.tensor.shape)) > len(now) and self.facts.fed[s.tensor]
            self.remembers |= past and self.facts.late[node] is None
            places: list[ir.Place] = []
            for axis, place in enumerate(s.places):
                if axis in now:
                    continue
                if s.outside is None:
                    self.check_inside(node, place, s.tensor.shape[axis], sizes)
                if isinstance(place, ir.Data):
                    place = ir.intern(ir.Data(done[place.value], place.mode))
                places.append(place)
            outside = None if s.outside is None else done[s.outside]
            shape = without(s.tensor.shape, now)
            reach = self.reaches.get(s.tensor) if not now else None
            started: ir.Scalar | None = None
            if reach is not None:
                (axis,) = self.facts.axes(shape)
                place = places[axis]
                assert isinstance(place, ir.Affine)
                places[axis] = ir.affine(place.terms, tidy(place.offset - self.newest + reach))
                shape = (*shape[:axis], reach + 1, *shape[axis + 1 :])
                if outside is not None and value_given(outside, lambda _: None) != 0:
                    # before the first position a buffer has 0
                    position = scalar(Linear(dict(place.terms), place.offset))
                    started = ir.op(">=", (position, ir.const(0, "i64")), "bool")
            inside = all(self.always_inside(x, size, sizes) for x, size in zip(places, shape, strict=True))
            done[s] = ir.intern(ir.Read(made, tuple(places), s.dtype, None if inside else outside))  # type: ignore[arg-type]
            if started is not None and outside is not None:
                done[s] = ir.op("select", (started, done[s], outside), s.dtype)
        return done[root]

    def is_now(self, place: ir.Place) -> bool:
        return isinstance(place, ir.Affine) and not place.terms and place.offset == self.newest

    def check_inside(self, node: ir.Node, place: ir.Place, size: Size, sizes: Sequence[Size]) -> None:
        """A place that is inside at the full length must be so from the first step on."""
        if isinstance(place, ir.At) or place.mode != "inside":
            return
        if isinstance(place, ir.Data):
            if self.facts.grows(size):
                raise NoStep(self.facts.reason(node, "reads positions that are data"))
            return
        whole = Linear(dict(place.terms), place.offset)
        low = lowest(whole, sizes) if self.facts.grows(place.offset) else 0
        high = highest(whole, sizes) if self.facts.grows(size) else 0
        top = tidy(size - 1) if self.facts.grows(size) else 0
        if low is None or high is None or not (FACTS.nonnegative(low) and FACTS.nonnegative(tidy(top - high))):
            at = show(place.offset) if not place.terms else "of another one"
            raise NoStep(self.facts.reason(node, f"reads position {at}, which the first steps do not have"))

    def _scatter(self, node: ir.Scatter, now: Now) -> Rule:
        variables: list[int] = []
        for axis in now:
            place = node.places[axis]
            if not isinstance(place, ir.Affine) or len(place.terms) != 1:
                raise self.refuse(node, "goes to positions that are data")
            variables.append(place.terms[0][0])
        body, ranges = self.moved(node, frozenset(variables))
        left = [n for n in range(len(node.ranges)) if n not in variables]
        forms = {n: Form((), self.newest) for n in variables} | {n: keep(k) for k, n in enumerate(left)}
        change = Change(forms, places=self.place, scalars=self.number)
        self.check_width(node, ranges)
        body = yield from self.readdressed(node, body, ranges)
        places: list[ir.Place] = []
        for axis, place in enumerate(node.places):
            if axis in now:
                continue
            place = change.place(place)
            if isinstance(place, ir.Data):
                value = yield from self.readdressed(node, place.value, ranges)
                place = ir.intern(ir.Data(value, place.mode))
            places.append(place)
        shape = without(node.shape, now)
        alone = ir.intern(replace(node, shape=shape, ranges=ranges, places=tuple(places), body=body, base=None))
        if node.base is None:
            return alone
        # only histories grow onto what they are: what the cache holds for a base must stay as it is
        base = yield self.whole(node.base, now)
        both = ir.op("+", (ir.whole(base), ir.whole(alone)), node.dtype)  # type: ignore[arg-type]
        return ir.comp(shape, both, name=node.name, span=node.span)

    def _reshape(self, node: ir.Reshape, now: Now) -> Rule:
        kept = kept_axes(node, self.length)
        before = frozenset(a for a, b in kept.items() if b in now)
        if len(before) != len(now):
            raise self.refuse(node, "groups positions with others")
        self.check_width(node, without(node.shape, now))
        of = yield self.whole(node.of, before)
        return ir.intern(replace(node, of=of, shape=without(node.shape, now)))  # type: ignore[arg-type]

    def _part(self, node: ir.Part, now: Now) -> Rule:
        of = node.of
        match of:
            case ir.Custom():
                return (yield self.whole(of.values[node.number], now))
            case ir.Along():
                return (yield from self._along(node, of, now))
            case ir.External():
                if any(a >= of.mapped for a in now):
                    raise self.refuse(node, f"is a `{of.op}` of matrices along the sequence")
                self.check_width(node, without(node.shape, now))
                args: list[ir.Tensor] = []
                for x in of.args:
                    args.append((yield self.whole(x, now)))  # type: ignore[arg-type]
                shapes = tuple(without(s, now) for s in of.shapes)
                made = ir.intern(replace(of, args=tuple(args), mapped=of.mapped - len(now), shapes=shapes))
                return ir.intern(replace(node, of=made, shape=without(node.shape, now)))
        if self.facts.late[of] is not None:
            raise self.refuse(of, "")
        carry = node.number - len(of.results)
        if self.facts.over_sequence(of):
            return (yield from self._one_step(node, of, now))
        if len(self.facts.axes(node.shape)) != len(now):
            raise self.refuse(node, "is needed at all positions, and is computed in a loop")
        if carry >= 0:
            place = self.want(of, "carry", carry, now)
        else:
            place = self.want(of, "result", node.number, frozenset(a - 1 for a in now))
        scan = yield of, frozenset()
        assert isinstance(scan, ir.Scan)
        number = place if carry < 0 else len(scan.results) + place
        return ir.intern(replace(node, of=scan, number=number, shape=without(node.shape, now)))

    def _along(self, node: ir.Part, of: ir.Along, now: Now) -> Rule:
        if of.op in RUNNING and of.axis in now and not of.reverse:
            element = yield of.args[0], now
            return self.running(node, ALONG[of.op], element)  # type: ignore[arg-type]
        if of.axis in now:
            raise self.refuse(node, f"is a `{of.op}` along the whole sequence")
        self.check_width(node, without(node.shape, now))
        args: list[ir.Tensor] = []
        for x in of.args:
            args.append((yield self.whole(x, now)))  # type: ignore[arg-type]
        axis = of.axis - sum(a < of.axis for a in now)
        made = ir.intern(replace(of, args=tuple(args), axis=axis, shapes=tuple(without(s, now) for s in of.shapes)))
        return ir.intern(replace(node, of=made, shape=without(node.shape, now)))

    def _one_step(self, node: ir.Part, scan: ir.Scan, now: Now) -> Rule:
        """A scan along the sequence: one step, from the carried values that the step before has left."""
        carry = node.number - len(scan.results)
        if carry >= 0:
            value = yield scan.carries[carry], now
        elif 0 in now:
            value = yield scan.results[node.number], frozenset(a - 1 for a in now if a > 0)
        else:
            raise self.refuse(node, "is a scan that is needed at all positions")
        left = self.carriers.setdefault(scan.number, {})
        while missing := sorted(left.keys() - self.advanced.get(scan.number, set())):
            for place in missing:
                self.advanced.setdefault(scan.number, set()).add(place)
                after = yield scan.carries[place], frozenset()
                self.cache.update(left[place], after)  # type: ignore[arg-type]
        return value

    def _loop(self, scan: ir.Scan) -> Rule:
        """A loop that is not along the sequence: its values at the newest position, and the entries of its passes."""
        wishes = sorted(self.wanted.get(scan.number, set()))
        groups: dict[str, list[ir.Tensor]] = {"start": [], "carry": [], "result": []}
        for kind, number, axes in wishes:
            now = frozenset(axes)
            if kind == "carry":
                groups["start"].append((yield scan.starts[number], now))  # type: ignore[arg-type]
            of = scan.carries[number] if kind == "carry" else scan.results[number]
            groups[kind].append((yield of, now))  # type: ignore[arg-type]
        leaving = self.cache.leaving.pop(scan.number, [])
        results = (*groups["result"], *(value for _, value in leaving))
        starts, carries = tuple(groups["start"]), tuple(groups["carry"])
        made = ir.intern(replace(scan, starts=starts, carries=carries, results=results))
        for k, (slot, value) in enumerate(leaving, len(groups["result"])):
            self.cache.stacked(scan, made, slot, k, value)
        return made
