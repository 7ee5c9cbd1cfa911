"""The indices of one statement: which names are indices, what they range over, and whether reads stay inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from dslc.check import wording
from dslc.check.conditions import Guarded, Known, not_negative
from dslc.check.frame import Frame
from dslc.check.positions import Bounds, affine, difference, interval, interval_affine
from dslc.check.program import Affine, Apply, Constant, Data, Expr, Index, Position, Read, Reduce, Tensor
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Polynomial, Size, Symbol, extreme, floor_div, product, quotient, tidy
from dslc.source import Span
from dslc.syntax import tree as t


@dataclass(frozen=True)
class Evidence:
    """A use that says how far an index runs: the place, the size, and where that size comes from."""

    span: Span
    size: Size
    written: str
    origin: Span | None


@dataclass(eq=False)
class PendingRead:
    """A position to be proved inside its axis once all ranges are known."""

    span: Span
    axis_span: Span
    name: str
    size: Size
    written: str
    origin: Span | None
    position: Position
    guarded: bool = False
    #: a place that is written to, by a scatter
    scattered: bool = False
    #: the select around it, whose condition may be what keeps it inside
    select: Guarded | None = None


@dataclass(eq=False)
class PendingGroup:
    span: Span
    indices: tuple[Index, ...]
    size: Size | None  # None: on a left-hand side, where the product itself is the size
    position: Affine  # its terms are filled in when all sizes are known
    written: str = ""
    origin: Span | None = None


@dataclass
class Ranges:
    """What says how far the indices of a statement run."""

    evidence: dict[Index, Evidence] = field(default_factory=dict)
    #: indices whose range is written beside them
    explicit: set[Index] = field(default_factory=set)
    #: indices of the left-hand side whose ranges the declared type of the result tells
    declared: set[Index] = field(default_factory=set)
    #: ranges from the `where` of the statement, for every index of that name, bound ones too
    stated: dict[str, Evidence] = field(default_factory=dict)
    #: ranges that plain uses of a name tell anywhere in the statement, for values that need them before they are seen
    ahead: dict[str, Evidence] = field(default_factory=dict)
    #: what the brackets that bind an index bind it for, where such values look for it
    within: dict[Index, tuple[t.Expr, ...]] = field(default_factory=dict)
    #: indices whose range has an error already
    failed: set[Index] = field(default_factory=set)


def plain_uses(frame: Frame, nodes: Iterable[t.Node]) -> dict[str, Evidence]:
    """How far names run that stand alone at a place of a tensor: `d` in `z[d, k - 1]`."""
    found: dict[str, Evidence] = {}
    for node in nodes:
        tensor = frame.lookup(node.base.id) if isinstance(node, t.Access) and isinstance(node.base, t.Name) else None
        if isinstance(node, t.Access) and isinstance(tensor, Tensor) and len(tensor.shape) == len(node.items):
            for item, size in zip(node.items, tensor.shape, strict=True):
                if isinstance(item, t.Name):
                    found.setdefault(item.id, Evidence(item.span, size, "", None))
    return found


def _unbound(nodes: Iterable[t.Node], name: str) -> Iterator[t.Node]:
    """Some nodes and all below them, but for calls with a name in their brackets: there it may be another index."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, t.Call) and isinstance(node.callee, t.Access):
            if any(isinstance(x, t.Name) and x.id == name for x in node.callee.walk()):
                continue
        yield node
        stack += node.children()


@dataclass
class Scope:
    """All that one statement says about indices. Binders push a level; `...` is a pack of indices."""

    frame: Frame
    names: dict[str, Index] = field(default_factory=dict)
    levels: list[dict[str, tuple[Index, ...]]] = field(default_factory=list)
    rest: tuple[Index, ...] | None = None
    rest_span: Span | None = None
    ranges: Ranges = field(default_factory=Ranges)
    reads: list[PendingRead] = field(default_factory=list)
    groups: list[PendingGroup] = field(default_factory=list)
    #: names that are indices in this statement
    index_names: set[str] = field(default_factory=set)
    #: expression node (by id) -> names to sum over there
    sums: dict[int, list[str]] = field(default_factory=dict)
    #: indices that a reduction without brackets was told to name: they need no further message
    unreduced: set[str] = field(default_factory=set)
    #: inside an axis function: the name that stands for the caller's indices
    axis_name: str | None = None
    #: names on the left-hand side: they may not be bound again inside
    kept: set[str] = field(default_factory=set)
    #: indices of the left-hand side need not occur on the right
    repeats: bool = False
    #: what the conditions of the selects around the present expression say
    known: tuple[Known, ...] = ()

    # ---- names

    def told_ahead(self, index: Index) -> Evidence | None:
        """A plain use of an index, free or bound, further on in the statement."""
        if self.names.get(index.name) is index:
            return self.ranges.ahead.get(index.name)
        return plain_uses(self.frame, _unbound(self.ranges.within.get(index, ()), index.name)).get(index.name)

    def find(self, name: str, span: Span) -> tuple[Index, ...]:
        """The index (or, for a bound axis of a function, the indices) that a name stands for."""
        for level in reversed(self.levels):
            if name in level:
                return level[name]
        if name not in self.names:
            self.names[name] = self.frame.new_index(name, None, span)
            self.state(self.names[name])
        return (self.names[name],)

    def state(self, index: Index) -> None:
        """Give an index the range that the `where` of the statement states for its name."""
        found = self.ranges.stated.get(index.name)
        if found is not None:
            self.ranges.explicit.add(index)
            self.constrain(index, found.size, found.span, found.written)

    def is_index(self, name: str) -> bool:
        return name in self.index_names or any(name in level for level in self.levels)

    # ---- ranges

    def constrain(self, index: Index, size: Size, span: Span, written: str = "", origin: Span | None = None) -> None:
        """An index must run over exactly `size`; two uses that cannot agree are an error that names both."""
        facts = self.frame.facts
        found = Evidence(span, size, written, origin)
        if index.size is None:
            index.size = size
            self._remember(index, found)
            return
        if index in self.ranges.failed:
            return
        if is_placeholder(facts.normal(index.size)) or is_placeholder(facts.normal(size)):
            if is_placeholder(facts.normal(index.size)):
                self._remember(index, found)
            facts.assume_equal(index.size, size)
            return
        equal = facts.equal(index.size, size)
        if not equal:
            self.ranges.failed.add(index)
            self._report_mismatch(index, found, equal)

    def _remember(self, index: Index, found: Evidence) -> None:
        self.ranges.evidence[index] = found
        for state in self.frame.scans:
            if state.index is index:
                state.evidence = found

    def _report_mismatch(self, index: Index, found: Evidence, equal: bool | None) -> None:
        assert index.size is not None
        scanned = [state.evidence for state in self.frame.scans if state.index is index]
        first = self.ranges.evidence.get(index) or (scanned[0] if scanned else None)
        a = wording.sized(self.frame, index.size, first.written if first else "")
        b = wording.sized(self.frame, found.size, found.written)
        labels = [Label(found.span, f"here over {b}")]
        if first is not None:
            labels.append(Label(first.span, f"here over {a}"))
            if first.origin is not None and first.origin != first.span:
                labels.append(Label(first.origin, f"{a} comes from here"))
        if found.origin is not None and found.origin != found.span:
            labels.append(Label(found.origin, f"{b} comes from here"))
        help = wording.always_equal(self.frame, index.size, found.size) if equal is None else None
        if first is not None and index.name:
            help = _part_of(self.frame, first, found, help, len(self.ranges.failed) == 1)
        kind = kinds.INDEX_TWO_SIZES if index.name else kinds.SIZES_DIFFER
        self.frame.report(kind(*labels, name=index.name, a=a, b=b, how=wording.how(equal), help=help))

    def unify(self, a: Index, b: Index) -> bool:
        """Two positional axes are one; False when their sizes differ."""
        if a is b:
            return True
        assert a.size is not None and b.size is not None
        facts = self.frame.facts
        if is_placeholder(facts.normal(a.size)) or is_placeholder(facts.normal(b.size)):
            return facts.assume_equal(a.size, b.size)
        return facts.equal(a.size, b.size) is True

    # ---- closing a statement

    def finish(self) -> bool:
        """Find the remaining ranges, then prove all reads inside. False when something failed."""
        before = self.frame.errors
        self._solve_groups(final=False)
        self._infer_valid_ranges()
        self._solve_groups(final=True)
        for index in [*self.names.values(), *(i for level in self.levels for pack in level.values() for i in pack)]:
            self._require(index)
        for group in self.groups:
            group.position.terms = _strides(group.indices)
        for read in self.reads:
            self.prove(read)
        return self.frame.errors == before

    def _require(self, index: Index) -> None:
        if any(index is state.index for state in self.frame.scans):
            return  # a later equation of the step may give the range; the end of the scan looks
        if index.size is None and index not in self.ranges.failed:
            self.ranges.failed.add(index)
            name = index.name or "..."
            self.frame.report(kinds.RANGE_UNKNOWN(Label(index.span), name=name, help=self._range_of_a_read(index)))

    def _range_of_a_read(self, index: Index) -> str | None:
        """Advice to let an index run as far as an axis that is read at a place that it takes part in."""
        for read in self.reads:
            if isinstance(read.position, Affine) and any(i is index for i, _ in read.position.terms) and index.name:
                if is_placeholder(self.frame.facts.normal(read.size)):
                    return None  # how long a value is that a scan is still building is not known yet
                size = self.frame.show(read.size)
                return (
                    f"give it a range where it is introduced: `{index.name}: {size}` for as many as `{read.name}` has "
                    "there, or another size"
                )
        return None

    def require_bound(self, indices: tuple[Index, ...]) -> None:
        """Remember the indices of a binder that is being left, so that `finish` looks at them too."""
        self.names.update({f"{i.name}@{id(i)}": i for i in indices})

    def _solve_groups(self, final: bool) -> None:
        facts = self.frame.facts
        for group in self.groups:
            if group.size is None:
                continue
            open_ = [i for i in group.indices if i.size is None]
            known = product(i.size for i in group.indices if i.size is not None)
            if len(open_) == 1:
                size = quotient(group.size, known)
                if facts.whole(size):
                    open_[0].size = tidy(size)
                    self.ranges.evidence[open_[0]] = Evidence(group.span, open_[0].size, "", None)
                else:
                    self.ranges.failed.add(open_[0])
                    open_[0].size = floor_div(group.size, known)
                    self._report_remainder(group, known)
            elif not open_ and final:
                equal = facts.equal(known, group.size)
                if equal is not True and not any(i in self.ranges.failed for i in group.indices):
                    self._report_group(group, known, equal)
            elif len(open_) > 1 and final:
                self.ranges.failed.update(open_)
                names = wording.listed(i.name for i in open_)
                help = f"give all but one a size, for example `where {open_[-1].name} = 8`"
                self.frame.report(kinds.GROUP_UNKNOWN(Label(group.span), names=names, help=help))

    def _report_remainder(self, group: PendingGroup, product: Size) -> None:
        """The size of an axis is not known to be a multiple of the sizes that a group gives it."""
        assert group.size is not None
        known = [self.ranges.evidence[i].written for i in group.indices if i in self.ranges.evidence]
        a = wording.named(self.frame, group.size, group.written)
        b = wording.named(self.frame, product, known[0] if len(known) == 1 else "")
        labels = [Label(group.span), *self._origins(group)]
        self.frame.report(wording.not_divisible(*labels, a=a, b=b, size=quotient(group.size, product)))

    def _report_group(self, group: PendingGroup, product: Size, equal: bool | None) -> None:
        """The sizes of the indices of a group do not make up the size of its axis."""
        assert group.size is not None
        ranges = ", ".join(f"`{i.name}` over {self.frame.show(i.size)}" for i in group.indices if i.size is not None)
        help = None
        if equal is None:
            help = wording.always_equal(self.frame, product, group.size)
            for index in group.indices:  # with a remainder of 0 they would be equal?
                trial = self.frame.facts.copy()
                if isinstance(index.size, int) and trial.assume_divides(index.size, group.size):
                    if trial.equal(product, group.size):
                        help = f"add `where {self.frame.show(group.size)} % {index.size} == 0`"
        a, b = f"`{self.frame.show(product)}`", f"`{self.frame.show(group.size)}`"
        labels = (Label(group.span, f"{ranges}: together {a}"), *self._origins(group))
        self.frame.report(kinds.SIZES_DIFFER(*labels, a=a, b=b, how=wording.how(equal), help=help))

    def _origins(self, group: PendingGroup) -> list[Label]:
        """Where the sizes come from that meet in a group."""
        assert group.size is not None
        labels = []
        if group.origin is not None and group.origin != group.span:
            shown = wording.sized(self.frame, group.size, group.written)
            labels.append(Label(group.origin, f"{shown} comes from here"))
        for index in group.indices:
            found = self.ranges.evidence.get(index)
            place = None if found is None else found.origin or found.span
            if found is not None and place is not None and place != group.span:
                shown = self.frame.show(found.size)
                labels.append(Label(place, f"`{shown}` for `{index.name}` comes from here"))
        return labels

    def _infer_valid_ranges(self) -> None:
        """An index without a range of its own takes the largest one that keeps its unguarded reads inside.

        Reads in a branch of a select say something only where no others do. A scanned index waits for the end of its
        scan, since a later equation of the step may say how far it runs.
        """
        scanned = {state.index for state in self.frame.scans}
        self.infer_ranges([read for read in self.reads if read.select is None], scanned)
        self.infer_ranges(self.reads, scanned)

    def infer_ranges(self, reads: Sequence[PendingRead], but: Set[Index] = frozenset()) -> None:
        """Give the indices of some reads, but not all of them, the largest ranges that keep these reads inside."""
        while True:
            found: dict[Index, list[tuple[Size, PendingRead]]] = {}
            for read in reads:
                position = read.position
                if read.guarded or not isinstance(position, Affine) or position.mode != "inside":
                    continue
                open_ = [(i, c) for i, c in position.terms if i.size is None]
                if len(open_) == 1 and open_[0][0] not in but:
                    size = self._valid_range(read, position, *open_[0])
                    if size is not None:
                        found.setdefault(open_[0][0], []).append((size, read))
            if not found:
                return
            for index, sizes in found.items():
                self._take_least(index, sizes)

    def _valid_range(self, read: PendingRead, position: Affine, index: Index, coefficient: Size) -> Size | None:
        """The number of values of one index, from 0 on, that keep a read inside."""
        facts = self.frame.facts
        if position.offset == 0 and len(position.terms) == 1 and facts.equal(coefficient, 1) is True:
            return None  # plain
        others = [(i, c) for i, c in position.terms if i is not index]
        low, high = interval_affine(self.frame, others, position.offset)
        if facts.positive(coefficient) and high is not None:
            return tidy(floor_div(tidy(read.size - 1 - high), coefficient) + 1)
        if facts.positive(tidy(-coefficient)) and low is not None:
            return tidy(floor_div(low, tidy(-coefficient)) + 1)
        return None

    def _take_least(self, index: Index, sizes: list[tuple[Size, PendingRead]]) -> None:
        facts = self.frame.facts
        least, read = sizes[0]
        for size, other in sizes[1:]:
            if facts.nonnegative(tidy(least - size)):
                least, read = size, other
            elif not facts.nonnegative(tidy(size - least)):
                least = tidy(extreme("min", (least, size)))
        index.size = least
        self.ranges.evidence[index] = Evidence(read.axis_span, least, "", None)
        if facts.positive(least):
            return
        self.ranges.failed.add(index)
        if isinstance(least, int):
            axis = f"`{read.name}` has {wording.positions(self.frame, read.size)} there"
            label = Label(read.axis_span, f"outside even for `{index.name}` = 0; {axis}")
            self.frame.report(kinds.LEAVES_RANGE(label, text=read.axis_span.text, name=read.name))
        else:
            what, shown = f"the range of `{index.name}`", self.frame.show(least)
            label = Label(read.axis_span, f"inside for {shown} values of `{index.name}`")
            help = f"state it: `where {wording.inequality(self.frame, tidy(least - 1))}`"
            self.frame.report(kinds.SIZE_MAY_BE_SMALL(label, what=what, found=shown, least=1, help=help))

    # ---- reads

    def prove(self, read: PendingRead) -> None:
        """Is the position provably inside 0..size? If not, is it provably outside, or just not known?"""
        position = read.position
        facts = self.frame.facts
        if position.mode != "inside" or read.guarded:
            return
        if isinstance(position, Affine):
            for state in self.frame.scans:
                if any(i is state.index for i, _ in position.terms) and not state.has_length(facts):
                    state.deferred.append((self, read))
                    return
            if any(i.size is None or i in self.ranges.failed for i, _ in position.terms):
                return
            if len(position.terms) == 1 and position.offset == 0 and position.terms[0][1] == 1:
                size = position.terms[0][0].size
                assert size is not None
                if is_placeholder(facts.normal(size)) or facts.equal(size, read.size) is True:
                    return  # plain: its size is the axis
            low, high = interval_affine(self.frame, position.terms, position.offset)
        else:
            for state in self.frame.scans:  # what bounds a carried value is known when its equation and start are
                if not {id(s.tensor) for s in state.sequences.values()}.isdisjoint(map(id, tensors_in(position.value))):
                    state.deferred.append((self, read))
                    return
            low, high = interval(self.frame, position.value)
        if is_placeholder(facts.normal(read.size)):
            if self.frame.scans:  # the equation of the value that is read says how long the axis is
                self.frame.scans[-1].deferred.append((self, read))
            return
        if low is not None and high is not None:
            if facts.nonnegative(low) and facts.nonnegative(tidy(read.size - 1 - high)):
                if read.select is not None:
                    read.select.proved(read)
                return
        if read.select is not None and self._inside_where_chosen(read, low, high):
            return
        self._report_read(read, (low, high))

    def _inside_where_chosen(self, read: PendingRead, low: Size | None, high: Size | None) -> bool:
        """Is the position inside wherever the selects around it choose the branch that it stands in?"""
        facts, found = self.frame.facts, dividend(read.position)
        if found is None or read.select is None:
            return False
        position, divisor = found
        known = read.select.known
        below = low is not None and facts.nonnegative(low)
        above = high is not None and facts.nonnegative(tidy(read.size - 1 - high))
        room = difference(Affine((), tidy(divisor * read.size - 1)), position)
        return (below or not_negative(self.frame, position, known)) and (above or not_negative(self.frame, room, known))

    def _report_read(self, read: PendingRead, bounds: Bounds) -> None:
        facts, frame = self.frame.facts, self.frame
        low, high = bounds
        reach = _reach(frame, low, high)
        axis = f"`{read.name}` has {wording.positions(frame, read.size)} there"
        labels = [Label(read.axis_span, f"reaches {reach}; {axis}" if reach else axis)]
        if read.origin is not None and read.origin.source.text and read.origin != read.axis_span:
            labels.append(Label(read.origin, f"{wording.sized(frame, read.size, read.written)} comes from here"))
        text = read.axis_span.text
        choices = f"`({read.span.text} else 0)`, or `wrap({text})` or `clamp({text})`"
        kind = kinds.MAY_LEAVE_RANGE
        if isinstance(read.position, Data):
            below = high is not None and facts.nonnegative(tidy(read.size - 1 - high))
            data = tensors_in(read.position.value)
            bound = "" if below or not data else bounded_data(frame, read.position, read.size) + ", or "
            if read.scattered:
                limit = frame.show(tidy(read.size - 1))
                help = f"{bound}limit the position: `clip({text}, 0, {limit})`"
            else:
                help = f"{bound}write `clamp({text})` or `({read.span.text} else 0)`"
        elif low is not None and high is not None and facts.nonnegative(tidy(-low - 1)) and low == high:
            kind = kinds.LEAVES_RANGE
            last = frame.show(tidy(read.size + low))
            source = read.span.source.text
            mended = source[read.span.start : read.axis_span.start] + last + source[read.axis_span.end : read.span.end]
            help = f"write `{mended}`; positions do not count from the end"
        elif (low is not None and facts.nonnegative(tidy(-low - 1))) or (
            high is not None and facts.nonnegative(tidy(high - read.size))
        ):
            kind = kinds.LEAVES_RANGE
            help = f"write {choices}, if that is meant{_slices(frame, read)}"
        else:
            needed = [x for x in (low, None if high is None else tidy(read.size - 1 - high)) if x is not None]
            facts_needed = [wording.inequality(frame, x) for x in needed if not facts.nonnegative(x)]
            stated = "state what makes it true in a `where`"
            if len(facts_needed) == 1 and "//" not in facts_needed[0]:
                stated = f"state that it cannot happen: `where {facts_needed[0]}`"
            help = f"write {choices}, or {stated}"
        if read.scattered and isinstance(read.position, Affine) and high is not None:
            help = f"the axis must have {frame.show(tidy(high + 1))} places at least"
        frame.report(kind(*labels, text=text, name=read.name, help=help))


def _slices(frame: Frame, read: PendingRead) -> str:
    """Advice for differences of neighbours: `x[:, 1:T]` and `x[:, 0:T - 1]` for `x[n, t+1] - x[n, t]`."""
    position, text = read.position, read.span.text
    plain = isinstance(position, Affine) and len(position.terms) == 1 and position.terms[0][1] == 1
    if not plain or not isinstance(position.offset, int) or "(" in text or not text.endswith("]"):  # type: ignore[union-attr]
        return ""
    before = read.span.source.text[read.span.start : read.axis_span.start].count(",")
    after = read.span.source.text[read.axis_span.end : read.span.end].count(",")
    step = abs(position.offset)  # type: ignore[union-attr]
    parts = (f"{step}:{frame.show(read.size)}", f"0:{frame.show(tidy(read.size - step))}")
    first, second = (f"{read.name}[{', '.join([':'] * before + [part] + [':'] * after)}]" for part in parts)
    return f"; to leave the ends out, name slices before, `{first}` and `{second}`"


def _part_of(frame: Frame, first: Evidence, found: Evidence, help: str | None, only: bool) -> str | None:
    """Advice to take the part of a longer axis that is meant: a plain index always means a whole axis.

    A parameter may have more rows than are read, if no other index of the statement fails, too.
    """
    facts = frame.facts
    for short, long in ((first, found), (found, first)):
        certain = facts.nonnegative(tidy(long.size - short.size))
        read = _READ.search(long.span.source.text[: long.span.start])
        rest = _REST.match(long.span.source.text[long.span.end :])
        stated = short is first and short.span.source.text[: short.span.start].rstrip().endswith(":")
        stated = stated or (short is first and ":" in short.span.text)
        tensor = None if read is None else frame.names.get(read[1])
        own = isinstance(tensor, Tensor) and tensor.role == "param" and isinstance(short.size, Polynomial)
        given = (x for x in frame.names.values() if isinstance(x, Tensor) and x.role == "input")
        stated = stated or (own and only and all(long.size not in x.shape for x in given))
        open_ = isinstance(short.size, Polynomial) and (isinstance(long.size, int) or certain)
        open_ = open_ or (stated and not facts.nonnegative(tidy(short.size - long.size)))
        if read is None or rest is None or not open_ or not long.span.text.isidentifier():
            continue
        before, after = (_INNER.sub("", x).count(",") for x in (read[2], rest[1]))
        size = frame.show(short.size)
        part = f"{read[1]}[{', '.join([':'] * before + [f'0:{size}'] + [':'] * after)}]"
        condition = "" if certain else f" and `where {size} <= {frame.show(long.size)}`"
        used = f"{read[1]}_part[{read[2]}{long.span.text}{rest[1]}]"
        part_help = f"for a part of `{read[1]}`, write `{read[1]}_part = {part}` before, `{used}` here{condition}"
        return f"{part_help}; {help}" if help else part_help
    return help


#: a read before one of its items, and behind it; another item may be data, such as `label[n, t]`
_INNER = re.compile(r"\[[^][()\n]*\]")
_READ = re.compile(rf"(\w+)\[((?:[^][()\n]|{_INNER.pattern})*)$")
_REST = re.compile(rf"((?:[^][()\n]|{_INNER.pattern})*)\](?!\s*=[^=])")


def tensors_in(e: Expr) -> list[Tensor]:
    """The tensors that a position reads."""
    found: list[Tensor] = []
    stack = [e]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Apply):
            stack.extend(node.args)
        elif isinstance(node, Reduce):
            stack.append(node.body)
        elif isinstance(node, Read):
            found.append(node.tensor)
            stack.extend(p.value for p in node.positions if isinstance(p, Data))
            stack.extend([] if node.outside is None else [node.outside])
    return found


def bounded_data(frame: Frame, position: Data, limit: Size) -> str:
    """Advice to declare the bound of the data that a position comes from."""
    tensor = position.value.tensor if isinstance(position.value, Read) else None
    return declare_bound(frame, tensor, limit)


def declare_bound(frame: Frame, tensor: Tensor | None, limit: Size) -> str:
    """Advice to declare that data stays below a limit, with the declaration itself where it can be seen."""
    shown = frame.show(limit)
    if tensor is not None and tensor.role == "input" and "[" in tensor.span.text and "\n" not in tensor.span.text:
        return f"declare the bound of the data: `{tensor.span.text.partition('<')[0].rstrip()} < {shown}`"
    return f"declare the bound of the data where it enters, with `< {shown}` behind its type"


def _strides(indices: tuple[Index, ...]) -> tuple[tuple[Index, Size], ...]:
    """Coefficients of a group, the last index fastest."""
    terms: list[tuple[Index, Size]] = []
    stride: Size = 1
    for index in reversed(indices):
        terms.append((index, stride))
        stride = tidy(stride * (index.size if index.size is not None else 1))
    return tuple(reversed(terms))


def dividend(position: Position) -> tuple[Affine, int] | None:
    """An affine form, and the number by which a position divides it, rounding down: (s - 1, 2) of `(s - 1) // 2`."""
    if isinstance(position, Affine):
        return position, 1
    value = position.value
    if isinstance(value, Apply) and value.op == "//" and isinstance(value.args[1], Constant):
        form, divisor = affine(value.args[0]), value.args[1].value
        if form is not None and isinstance(divisor, int) and divisor > 0:
            return form, divisor
    return None


def is_placeholder(size: Size) -> bool:
    """Is this a size that a scan has still to find out?"""
    return isinstance(size, Symbol) and size.name.startswith("?")


def _reach(frame: Frame, low: Size | None, high: Size | None) -> str:
    if low is None or high is None:
        return ""
    a, b = frame.show(low), frame.show(high)
    return a if a == b else f"{a} to {b}"
