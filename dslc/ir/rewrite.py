"""Changing variables: the one place where bodies are moved from one comprehension into another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from dslc.ir import nodes as ir
from dslc.sizes import Size, tidy


@dataclass(frozen=True)
class Form:
    """What a variable becomes: `(offset + sum of coefficient * new variable) / divisor`."""

    terms: tuple[tuple[int, Size], ...]
    offset: Size = 0
    divisor: Size = 1


def keep(number: int) -> Form:
    return Form(((number, 1),))


class NotAffine(Exception):
    """A change of variables that affine places cannot express."""


def compose(place: ir.Affine, table: Mapping[int, Form]) -> ir.Affine:
    """An affine place after a change of variables."""
    if len(place.terms) == 1 and place.terms[0][1] == 1 and place.divisor == 1:  # most places are one variable
        form = table[place.terms[0][0]]
        if form.divisor == 1:
            return ir.affine(form.terms, tidy(place.offset + form.offset), place.mode)
    terms: dict[int, Size] = {}
    offset: Size = place.offset
    divisor: Size = place.divisor
    divided = [(n, c) for n, c in place.terms if table[n].divisor != 1]
    if divided:
        if len(divided) > 1 or divided[0][1] != 1 or divisor != 1:
            raise NotAffine
        divisor = table[divided[0][0]].divisor
        offset = tidy(offset * divisor)
    for number, coefficient in place.terms:
        form = table[number]
        factor = tidy(coefficient * (1 if form.divisor != 1 else divisor if divided else 1))
        offset = tidy(offset + factor * form.offset)
        for new, c in form.terms:
            terms[new] = tidy(terms.get(new, 0) + factor * c)
    return ir.affine(tuple(terms.items()), offset, place.mode, divisor)


@dataclass
class Change:
    """A change of variables and of tensors, applied to bodies.

    `forms` says what each variable becomes, or nothing when all stay as they are. `tensors` may replace a tensor by
    another one that is read with extra leading places, `scalars` a tensor without axes by a number, `places` the
    place of a step. `guard` tells which variables may leave their range: reads that use them get 0 outside.
    """

    forms: Mapping[int, Form] | None
    tensors: Callable[[ir.Tensor], tuple[ir.Tensor, tuple[ir.Place, ...]] | None] = lambda _: None
    places: Callable[[ir.Place], ir.Place] = lambda place: place
    scalars: Callable[[ir.Tensor], ir.Scalar | None] = lambda _: None
    guard: frozenset[int] = frozenset()
    _done: dict[int, ir.Scalar] = field(default_factory=dict)

    def scalar(self, root: ir.Scalar) -> ir.Scalar:
        done = self._done
        for s in ir.scalars(root):
            if id(s) not in done:
                done[id(s)] = self._one(s)
        return done[id(root)]

    def place(self, place: ir.Place) -> ir.Place:
        if isinstance(place, ir.Affine):
            return place if self.forms is None else compose(place, self.forms)
        if isinstance(place, ir.Data):
            return ir.intern(ir.Data(self.scalar(place.value), place.mode))
        return self.places(place)

    def _one(self, s: ir.Scalar) -> ir.Scalar:
        match s:
            case ir.Var():
                return s if self.forms is None else self.value(self.forms[s.number])
            case ir.Read():
                instead = self.scalars(s.tensor)
                if instead is not None:
                    return instead
                places = tuple([self.place(x) for x in s.places])
                outside = None if s.outside is None else self._done[id(s.outside)]
                if outside is None and self.guard and any(self._guarded(x) for x in s.places):
                    outside = zero(s.dtype)
                found = self.tensors(s.tensor)
                if found is None and outside is s.outside and all(map(is_, places, s.places)):
                    return s
                tensor, lead = (s.tensor, ()) if found is None else found
                return ir.intern(ir.Read(tensor, (*lead, *places), s.dtype, outside))
        return ir.rebuild(s, lambda x: self._done[id(x)])

    def _guarded(self, place: ir.Place) -> bool:
        if isinstance(place, ir.Affine):
            return any(n in self.guard for n, _ in place.terms)
        if isinstance(place, ir.Data):
            return any(isinstance(x, ir.Var) and x.number in self.guard for x in ir.scalars(place.value))
        return False

    def value(self, form: Form) -> ir.Scalar:
        """The value of a form as a number."""
        total: ir.Scalar | None = None
        for number, coefficient in form.terms:
            part: ir.Scalar = ir.var(number)
            if coefficient != 1:
                part = ir.op("*", (ir.intern(ir.SizeOf(coefficient)), part), "i64")
            total = part if total is None else ir.op("+", (total, part), "i64")
        if form.offset != 0 or total is None:
            offset = ir.intern(ir.SizeOf(form.offset))
            total = offset if total is None else ir.op("+", (total, offset), "i64")
        if form.divisor != 1:
            total = ir.op("//", (total, ir.intern(ir.SizeOf(form.divisor))), "i64")
        return total


def plain_variable(place: ir.Place) -> int | None:
    """The variable that a place is, unchanged; None for any other place."""
    if isinstance(place, ir.Affine) and place.mode == "inside" and place.divisor == 1 and place.offset == 0:
        if len(place.terms) == 1 and place.terms[0][1] == 1:
            return place.terms[0][0]
    return None


@dataclass
class Put:
    """Variables replaced by places: what a formula is when it is read at those places."""

    places: Mapping[int, ir.Place]
    #: the sizes of the axes that the places are on
    shape: tuple[Size, ...] = ()
    done: dict[ir.Scalar, ir.Scalar] = field(default_factory=dict)

    def scalar(self, root: ir.Scalar) -> ir.Scalar:
        for s in ir.scalars(root):
            if s not in self.done:
                self.done[s] = self.one(s)
        return self.done[root]

    def one(self, s: ir.Scalar) -> ir.Scalar:
        match s:
            case ir.Var():
                return value_of(self.places[s.number])
            case ir.Read():
                places = tuple(self.place(x, n) for x, n in zip(s.places, s.tensor.shape, strict=True))
                outside = None if s.outside is None else self.done[s.outside]
                return ir.intern(ir.Read(s.tensor, places, s.dtype, outside))
        return ir.rebuild(s, lambda x: self.done[x])

    def place(self, place: ir.Place, size: Size) -> ir.Place:
        """A place on an axis of the given size."""
        if isinstance(place, ir.At):
            return place
        if isinstance(place, ir.Data):
            return ir.intern(ir.Data(self.scalar(place.value), place.mode))
        variable = plain_variable(place)
        if variable is not None:
            given = self.places[variable]
            around = not isinstance(given, ir.At) and given.mode != "inside"
            if around and (variable >= len(self.shape) or self.shape[variable] != size):
                raise NotAffine  # wrapped around, or clamped to, an axis of another length
            return given
        forms: dict[int, Form] = {}
        for number, _ in place.terms:
            given = self.places[number]
            if not isinstance(given, ir.Affine) or given.mode != "inside":
                raise NotAffine
            forms[number] = Form(given.terms, given.offset, given.divisor)
        return compose(place, forms)


def value_of(place: ir.Place) -> ir.Scalar:
    """The number that a place is."""
    if isinstance(place, ir.Data):
        if place.mode != "inside":
            raise NotAffine
        return place.value
    if isinstance(place, ir.At):
        at: ir.Scalar = ir.read(place.step, ())
        return at if place.offset == 0 else ir.op("+", (at, ir.intern(ir.SizeOf(place.offset))), "i64")
    if place.mode != "inside":
        raise NotAffine
    return Change({}).value(Form(place.terms, place.offset, place.divisor))


def seen_at(places: Sequence[ir.Place], body: ir.Scalar) -> ir.Scalar | None:
    """The body of a comprehension as one sees it who reads the comprehension at these places.

    None where a place is data or may lie outside, and where the result would not be affine.
    """
    if not all(isinstance(x, ir.Affine) and x.mode == "inside" for x in places):
        return None
    try:
        return Put(dict(enumerate(places))).scalar(body)
    except NotAffine:
        return None


def zero(dtype: str) -> ir.Const:
    if dtype == "bool":
        return ir.const(False, dtype)
    return ir.const(0, dtype) if dtype in ("i32", "i64") else ir.const(0.0, dtype)


def shift(body: ir.Scalar, by: int, count: int) -> ir.Scalar:
    """The body with all its variables `by` numbers up."""
    return body if by == 0 else Change({n: keep(n + by) for n in range(count)}).scalar(body)


def identity(count: int) -> dict[int, Form]:
    return {n: keep(n) for n in range(count)}


class Substitute:
    """A graph with some tensors replaced, each by a tensor that is read with extra leading places."""

    def __init__(
        self,
        tensors: Mapping[ir.Node, tuple[ir.Tensor, tuple[ir.Place, ...]]],
        places: Callable[[ir.Place], ir.Place] = lambda place: place,
        plain: Mapping[ir.Node, ir.Node] | None = None,
        everywhere: bool = False,
    ):
        """`plain` nodes are replaced by others of their kind; `everywhere`: also those that only a scan computes."""
        self.tensors = tensors
        self.places = places
        self.done: dict[ir.Node, ir.Node] = dict(plain or {})
        self.everywhere = everywhere

    def node(self, root: ir.Node) -> ir.Node:
        done, stack = self.done, [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in done:
                continue
            if ready:
                done[node] = self._one(node)
            else:
                stack.append((node, True))
                stack.extend([(a, False) for a in reversed(ir.arguments(node)) if a not in done])
        return done[root]

    def tensor(self, root: ir.Tensor) -> ir.Tensor:
        return self.node(root)  # type: ignore[return-value]

    def _one(self, node: ir.Node) -> ir.Node:
        if node in self.tensors:
            tensor, lead = self.tensors[node]
            shape: tuple[Size, ...] = node.shape  # type: ignore[union-attr]
            places = (*lead, *(ir.plain(i) for i in range(len(shape))))
            return ir.comp(shape, ir.read(tensor, places), name=getattr(node, "name", ""))
        look_inside = self.everywhere and isinstance(node, ir.Scan)
        if not look_inside and all(self.done[a] is a for a in ir.arguments(node)):
            return node
        match node:
            case ir.Comp():
                body = self.change().scalar(node.body)
                return ir.comp(node.shape, body, node.op, node.reduced, node.name, node.span, node.dtype)
            case ir.Scatter():
                change = self.change()
                places = tuple(change.place(x) for x in node.places)
                base = None if node.base is None else self.known(node.base)
                return ir.intern(replace(node, places=places, body=change.scalar(node.body), base=base))
            case ir.Reshape():
                return ir.intern(replace(node, of=self.known(node.of)))
            case ir.Part():
                return ir.intern(replace(node, of=self.done[node.of]))  # type: ignore[arg-type]
            case ir.Along() | ir.External():
                return ir.intern(replace(node, args=self.all(node.args)))
            case ir.Custom():
                rule = node.rule if isinstance(node.rule, ir.Apart | ir.Recompute) else SubstitutedRule(node.rule, self)
                return ir.intern(ir.Custom(self.all(node.args), self.all(node.values), rule))
            case ir.Scan():
                starts, carries, results = (
                    tuple(self.tensor(x) for x in group) for group in (node.starts, node.carries, node.results)
                )
                # interned, so that a scan in which nothing changes stays the same object
                return ir.intern(replace(node, starts=starts, carries=carries, results=results))
        return node

    def known(self, tensor: ir.Tensor) -> ir.Tensor:
        return self.done[tensor]  # type: ignore[return-value]

    def all(self, tensors: tuple[ir.Tensor, ...]) -> tuple[ir.Tensor, ...]:
        return tuple(self.known(x) for x in tensors)

    def change(self) -> Change:
        def look(tensor: ir.Tensor) -> tuple[ir.Tensor, tuple[ir.Place, ...]] | None:
            if tensor in self.tensors:
                return self.tensors[tensor]
            new = self.done.get(tensor, tensor)
            return None if new is tensor else (new, ())  # type: ignore[return-value]

        return Change(None, look, self.places)


class Copy(Substitute):
    """A graph with some nodes replaced by others of their kind; scans that read them are loops of their own."""

    def __init__(self, plain: Mapping[ir.Node, ir.Node]):
        super().__init__({}, self._step_of, plain)
        self.numbers: dict[int, int] = {}

    def _step_of(self, place: ir.Place) -> ir.Place:
        if isinstance(place, ir.At) and place.step in self.done:
            return ir.intern(ir.At(self.done[place.step], place.offset))  # type: ignore[arg-type]
        return place

    def _one(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Scan) or all(self.done[a] is a for a in ir.arguments(node)):
            return super()._one(node)
        if node.number not in self.numbers:
            self.numbers[node.number] = ir.fresh_number()
        number = self.numbers[node.number]
        for x in ir.inside(node)[0]:
            if isinstance(x, ir.Step) and x.scan == node.number:
                self.done[x] = ir.intern(replace(x, scan=number))
        made = super()._one(node)
        assert isinstance(made, ir.Scan)
        return ir.intern(replace(made, number=number))


def renumbered(scan: ir.Scan, number: int) -> ir.Scan:
    """The same loop under another number; loops inside that read its steps have other numbers, too."""
    own = [x for x in ir.inside(scan)[0] if isinstance(x, ir.Step) and x.scan == scan.number]
    copy = Copy({x: ir.intern(replace(x, scan=number)) for x in own})
    carries, results = (tuple(map(copy.tensor, group)) for group in (scan.carries, scan.results))
    return ir.intern(replace(scan, number=number, carries=carries, results=results))


@dataclass(eq=False)
class SubstitutedRule:
    """The derivative by hand of a node whose arguments were replaced: so are the values that its rule uses."""

    rule: ir.Rule
    substitute: Substitute

    def __call__(self, cotangents: Sequence[ir.Tensor]) -> dict[int, ir.Tensor]:
        return {k: self.substitute.tensor(x) for k, x in self.rule(cotangents).items()}
