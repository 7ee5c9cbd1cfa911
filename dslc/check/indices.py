"""The indices of one statement: which names are indices, what they range over, and whether reads stay inside."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from dslc.check.frame import Frame
from dslc.check.program import Affine, Apply, Constant, Data, Expr, Index, IndexValue, Position, Read, Reduce, SizeValue
from dslc.check.values import is_int
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Size, floor_div, quotient, tidy
from dslc.source import Span


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
    axis: int
    size: Size
    written: str
    position: Position
    guarded: bool


@dataclass(eq=False)
class PendingGroup:
    span: Span
    indices: tuple[Index, ...]
    size: Size | None  # None: on a left-hand side, where the product itself is the size
    position: Affine  # its terms are filled in when all sizes are known


@dataclass
class Scope:
    """All that one statement says about indices. Binders push a level; `...` is a pack of indices."""

    frame: Frame
    names: dict[str, Index] = field(default_factory=dict)
    levels: list[dict[str, tuple[Index, ...]]] = field(default_factory=list)
    rest: tuple[Index, ...] | None = None
    rest_span: Span | None = None
    evidence: dict[Index, Evidence] = field(default_factory=dict)
    explicit: set[Index] = field(default_factory=set)
    reads: list[PendingRead] = field(default_factory=list)
    groups: list[PendingGroup] = field(default_factory=list)
    #: names that are indices in this statement
    index_names: set[str] = field(default_factory=set)
    #: expression node (by id) -> names to sum over there
    sums: dict[int, list[str]] = field(default_factory=dict)
    #: inside an axis function: the name that stands for the caller's indices
    axis_name: str | None = None
    #: names on the left-hand side: they may not be bound again inside
    kept: set[str] = field(default_factory=set)
    #: indices of the left-hand side need not occur on the right
    repeats: bool = False
    failed: set[Index] = field(default_factory=set)

    # ---- names

    def find(self, name: str, span: Span) -> tuple[Index, ...]:
        """The index (or, for a bound axis of a function, the indices) that a name stands for."""
        for level in reversed(self.levels):
            if name in level:
                return level[name]
        if name not in self.names:
            self.names[name] = self.frame.new_index(name, None, span)
        return (self.names[name],)

    def is_index(self, name: str) -> bool:
        return name in self.index_names or any(name in level for level in self.levels)

    # ---- ranges

    def constrain(self, index: Index, size: Size, span: Span, written: str = "", origin: Span | None = None) -> None:
        """An index must run over exactly `size`; two uses that cannot agree are an error that names both."""
        facts = self.frame.facts
        found = Evidence(span, size, written, origin)
        if index.size is None:
            index.size = size
            self.evidence[index] = found
            return
        if index in self.failed:
            return
        unknown = [s for s in (index.size, size) if is_placeholder(facts.normal(s))]
        if unknown:
            facts.assume_equal(index.size, size)
            return
        equal = facts.equal(index.size, size)
        if not equal:
            self.failed.add(index)
            self.report_mismatch(index, found, equal)

    def report_mismatch(self, index: Index, found: Evidence, equal: bool | None) -> None:
        first = self.evidence.get(index)
        assert index.size is not None
        a = _sized(self.frame, index.size, first.written if first else "")
        b = _sized(self.frame, found.size, found.written)
        labels = [Label(found.span, f"here over {b}")]
        if first is not None:
            labels.append(Label(first.span, f"here over {a}"))
            if first.origin is not None and first.origin != first.span:
                labels.append(Label(first.origin, f"{a} comes from here"))
        if found.origin is not None and found.origin != found.span:
            labels.append(Label(found.origin, f"{b} comes from here"))
        if not index.name:
            self.frame.report(kinds.SIZES_DIFFER(*labels, a=a, b=b, how=_how(equal)))
            return
        help = None
        if equal is None:
            x, y = self.frame.show(index.size), self.frame.show(found.size)
            help = f"if they are always equal, say so: `where {x} == {y}`"
        self.frame.report(kinds.INDEX_TWO_SIZES(*labels, name=index.name, a=a, b=b, how=_how(equal), help=help))

    def unify(self, a: Index, b: Index, span: Span) -> bool:
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
            self._prove(read)
        return self.frame.errors == before

    def _require(self, index: Index) -> None:
        if any(index is state.index for state in self.frame.scans):
            return  # a later equation of the step may give the range; the end of the scan looks
        if index.size is None and index not in self.failed:
            self.failed.add(index)
            self.frame.report(kinds.RANGE_UNKNOWN(Label(index.span), name=index.name or "..."))

    def require_bound(self, indices: tuple[Index, ...]) -> None:
        """Remember the indices of a binder that is being left, so that `finish` looks at them too."""
        self.names.update({f"{i.name}@{id(i)}": i for i in indices})

    def _solve_groups(self, final: bool) -> None:
        facts = self.frame.facts
        for group in self.groups:
            if group.size is None:
                continue
            open_ = [i for i in group.indices if i.size is None]
            product: Size = 1
            for index in group.indices:
                if index.size is not None:
                    product = tidy(product * index.size)
            if len(open_) == 1:
                size = quotient(group.size, product)
                if not facts.whole(size):
                    self.failed.add(open_[0])
                    open_[0].size = floor_div(group.size, product)
                    a, b = self.frame.show(group.size), self.frame.show(product)
                    self.frame.report(
                        kinds.NOT_DIVISIBLE(Label(group.span), a=a, b=b, help=f"add `where {a} % {b} == 0`")
                    )
                else:
                    open_[0].size = tidy(size)
                    self.evidence[open_[0]] = Evidence(group.span, open_[0].size, "", None)
            elif not open_ and final:
                if not any(i in self.failed for i in group.indices) and facts.equal(product, group.size) is not True:
                    a, b = self.frame.show(product), self.frame.show(group.size)
                    self.frame.report(
                        kinds.SIZES_DIFFER(Label(group.span), a=a, b=b, how=_how(facts.equal(product, group.size)))
                    )
            elif len(open_) > 1 and final:
                for index in open_:
                    self.failed.add(index)
                names = " and ".join(f"`{i.name}`" for i in open_)
                help = f"give all but one a size, for example `where {open_[-1].name} = 8`"
                self.frame.report(kinds.GROUP_UNKNOWN(Label(group.span), names=names, help=help))

    def _infer_valid_ranges(self) -> None:
        """An index without a range of its own takes the largest one that keeps its unguarded reads inside."""
        facts = self.frame.facts
        for read in self.reads:
            position = read.position
            if read.guarded or not isinstance(position, Affine) or position.mode != "inside":
                continue
            open_ = [(i, c) for i, c in position.terms if i.size is None]
            if len(open_) != 1:
                continue
            index, coefficient = open_[0]
            if not facts.positive(coefficient) or (
                facts.equal(coefficient, 1) is True and len(position.terms) == 1 and position.offset == 0
            ):
                continue
            _, high = interval_affine(
                self.frame, [(i, c) for i, c in position.terms if i is not index], position.offset
            )
            if high is None:
                continue
            size = tidy(floor_div(tidy(read.size - 1 - high), coefficient) + 1)
            index.size = size
            self.evidence[index] = Evidence(read.axis_span, size, "", None)

    def _prove(self, read: PendingRead) -> None:
        """Is the position provably inside 0..size? If not, is it provably outside, or just not known?"""
        position = read.position
        if position.mode != "inside" or read.guarded:
            return
        if isinstance(position, Affine):
            if any(i.size is None or i in self.failed for i, _ in position.terms):
                for state in self.frame.scans:
                    if any(i is state.index and i.size is None for i, _ in position.terms):
                        state.deferred.append((self, read))
                return
            if len(position.terms) == 1 and position.offset == 0 and position.terms[0][1] == 1:
                return  # plain: its size is the axis
            low, high = interval_affine(self.frame, position.terms, position.offset)
        else:
            low, high = interval(self.frame, position.value)
        facts = self.frame.facts
        size = read.size
        if is_placeholder(facts.normal(size)):
            return
        if low is not None and high is not None and facts.nonnegative(low) and facts.nonnegative(tidy(size - 1 - high)):
            return
        text = read.axis_span.text
        axis = f"`{read.name}` has {_sized(self.frame, size, read.written)} there"
        reach = _reach(self.frame, low, high)
        outside = (low is not None and facts.nonnegative(tidy(-low - 1))) or (
            high is not None and facts.nonnegative(tidy(high - size))
        )
        label = Label(read.axis_span, f"reaches {reach}; {axis}" if reach else axis)
        if isinstance(position, Data):
            help = (
                f"declare the bound of the data (`i32[...] < {self.frame.show(size)}`), "
                f"or write `clamp({text})` or `({read.span.text} else 0)`"
            )
            self.frame.report(kinds.MAY_LEAVE_RANGE(label, text=text, name=read.name, help=help))
        elif outside:
            help = f"write `({read.span.text} else 0)`, or `wrap({text})` or `clamp({text})`, if that is meant"
            self.frame.report(kinds.LEAVES_RANGE(label, text=text, name=read.name, help=help))
        else:
            help = (
                f"write `({read.span.text} else 0)`, or `wrap({text})` or `clamp({text})`, "
                "or state what makes it true in a `where`"
            )
            self.frame.report(kinds.MAY_LEAVE_RANGE(label, text=text, name=read.name, help=help))


def _strides(indices: tuple[Index, ...]) -> tuple[tuple[Index, Size], ...]:
    """Coefficients of a group, the last index fastest."""
    terms: list[tuple[Index, Size]] = []
    stride: Size = 1
    for index in reversed(indices):
        terms.append((index, stride))
        stride = tidy(stride * (index.size if index.size is not None else 1))
    return tuple(reversed(terms))


# ---- sizes in words ------------------------------------------------------------------------------


def is_placeholder(size: Size) -> bool:
    """Is this a size that a scan has still to find out?"""
    return isinstance(size, sp.Symbol) and size.name.startswith("?")


def _sized(frame: Frame, size: Size, written: str) -> str:
    value = frame.show(size)
    return f"`{written} = {value}`" if written and written != value and written.isidentifier() else f"`{value}`"


def _how(equal: bool | None) -> str:
    return "are different" if equal is False else "are not known to be equal"


def _reach(frame: Frame, low: Size | None, high: Size | None) -> str:
    if low is None or high is None:
        return ""
    a, b = frame.show(low), frame.show(high)
    return a if a == b else f"{a} to {b}"


# ---- intervals -----------------------------------------------------------------------------------


def interval_affine(frame: Frame, terms: object, offset: Size) -> tuple[Size | None, Size | None]:
    """The least and greatest value of an affine position over the ranges of its indices."""
    low: Size | None = offset
    high: Size | None = offset
    facts = frame.facts
    for index, coefficient in terms:  # type: ignore[attr-defined]
        if index.size is None:
            return None, None
        reach = tidy(coefficient * (index.size - 1))
        if facts.nonnegative(coefficient):
            high = None if high is None else tidy(high + reach)
        elif facts.nonnegative(tidy(-coefficient)):
            low = None if low is None else tidy(low + reach)
        else:
            return None, None
    return low, high


Bounds = tuple[Size | None, Size | None]


def interval(frame: Frame, e: Expr) -> Bounds:
    """Bounds of a whole-number expression, as far as they are known."""
    if isinstance(e, Constant) and isinstance(e.value, int):
        return int(e.value), int(e.value)
    if isinstance(e, SizeValue):
        return e.size, e.size
    if isinstance(e, IndexValue):
        return 0, None if e.index.size is None else tidy(e.index.size - 1)
    if isinstance(e, Read):
        if e.tensor.below is not None and (e.outside is None or _inside(frame, e.outside, e.tensor.below)):
            return 0, tidy(e.tensor.below - 1)
        return None, None
    if isinstance(e, Reduce) and e.op in ("max", "min"):
        return interval(frame, e.body)
    if isinstance(e, Reduce) and e.op in ("argmax", "argmin"):
        size: Size = 1
        for index in e.indices:
            if index.size is None:
                return 0, None
            size = tidy(size * index.size)
        return 0, tidy(size - 1)
    if isinstance(e, Apply) and is_int(e.dtype):
        return _interval_apply(frame, e)
    return None, None


def _inside(frame: Frame, e: Expr, below: Size) -> bool:
    low, high = interval(frame, e)
    facts = frame.facts
    return low is not None and high is not None and facts.nonnegative(low) and facts.nonnegative(tidy(below - 1 - high))


def _interval_apply(frame: Frame, e: Apply) -> Bounds:
    args = [interval(frame, a) for a in e.args]
    facts = frame.facts
    if e.op in ("i32", "i64", "stop_grad"):
        return args[0]
    if e.op == "select":
        return _union(frame, args[1], args[2])
    if e.op == "neg":
        low, high = args[0]
        return (None if high is None else tidy(-high)), (None if low is None else tidy(-low))
    if e.op == "+":
        (a, b), (c, d) = args
        return (None if a is None or c is None else tidy(a + c)), (None if b is None or d is None else tidy(b + d))
    if e.op == "-":
        (a, b), (c, d) = args
        return (None if a is None or d is None else tidy(a - d)), (None if b is None or c is None else tidy(b - c))
    if e.op == "*":
        (a, b), (c, d) = args
        if all(x is not None and facts.nonnegative(x) for x in (a, c)):
            assert a is not None and c is not None
            return tidy(a * c), (None if b is None or d is None else tidy(b * d))
        return None, None
    divisor = args[1][0] if len(args) == 2 and args[1][0] is not None and args[1][0] == args[1][1] else None
    if e.op == "%" and divisor is not None and facts.positive(divisor):
        return 0, tidy(divisor - 1)
    if e.op == "//" and divisor is not None and facts.positive(divisor):
        a, b = args[0]
        return (None if a is None else floor_div(a, divisor)), (None if b is None else floor_div(b, divisor))
    if e.op == "clip":
        return args[1][0], args[2][1]
    if e.op == "min" and args[0][1] is not None:
        return (args[0][0] if args[0][0] == args[1][0] else None), args[0][1]
    return None, None


def _union(frame: Frame, x: Bounds, y: Bounds) -> Bounds:
    def pick(a: Size | None, b: Size | None, smaller: bool) -> Size | None:
        if a is None or b is None:
            return None
        first, second = (b, a) if smaller else (a, b)
        if frame.facts.nonnegative(tidy(first - second)):
            return a
        return b if frame.facts.nonnegative(tidy(second - first)) else None

    return pick(x[0], y[0], True), pick(x[1], y[1], False)


# ---- from expressions to positions ---------------------------------------------------------------


def affine(e: Expr) -> Affine | None:
    """`offset + sum of coefficient * index` when the expression is that, else None."""
    if isinstance(e, Constant) and isinstance(e.value, int) and not isinstance(e.value, bool):
        return Affine((), e.value)
    if isinstance(e, SizeValue):
        return Affine((), e.size)
    if isinstance(e, IndexValue):
        return Affine(((e.index, 1),), 0)
    if not isinstance(e, Apply) or e.op not in ("+", "-", "*", "neg"):
        return None
    parts = [affine(a) for a in e.args]
    if any(p is None for p in parts):
        return None
    known = [p for p in parts if p is not None]
    if e.op == "neg":
        return _scaled(known[0], -1)
    if e.op == "*":
        if not known[0].terms:
            return _scaled(known[1], known[0].offset)
        return _scaled(known[0], known[1].offset) if not known[1].terms else None
    second = _scaled(known[1], -1) if e.op == "-" else known[1]
    terms: dict[Index, Size] = {}
    for index, coefficient in (*known[0].terms, *second.terms):
        terms[index] = tidy(terms.get(index, 0) + coefficient)
    return Affine(tuple((i, c) for i, c in terms.items() if c != 0), tidy(known[0].offset + second.offset))


def _scaled(a: Affine, factor: Size) -> Affine:
    return Affine(tuple((i, tidy(c * factor)) for i, c in a.terms), tidy(a.offset * factor))


def reads_data(e: Expr) -> bool:
    """Does a position depend on tensor values (and not only on indices)?"""
    stack: list[Expr] = [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Read | Reduce):
            return True
        if isinstance(node, Apply):
            stack.extend(node.args)
    return False
