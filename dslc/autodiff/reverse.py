"""Reverse mode on the IR: adjoints of all nodes from cotangents of some; the result is ordinary IR.

    y[i] = sum over r of body(i, r)   gives, for each read x[place(i, r)] in the body with adjoint a(i, r),
    dx[u] = sum over all (i, r) with place(i, r) = u of a(i, r)

The places are affine, so the sum is solved for the variables: a gather, with a guard where the solution leaves its
range or is not whole (a strided convolution). Only places that are data need a scatter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dslc.autodiff import scalar as d
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, NotAffine, keep, shift, zero
from dslc.sizes import Size, tidy


class NoDerivative(Exception):
    """An operation that dslc cannot differentiate."""

    def __init__(self, what: str, node: ir.Node):
        self.what = what
        self.span = getattr(node, "span", None)
        super().__init__(what)


def is_float(dtype: str) -> bool:
    return dtype not in ("i32", "i64", "bool")


def gradients(
    seeds: Mapping[ir.Tensor, ir.Tensor], wrt: Sequence[ir.Tensor], lead: tuple[Size, ...] = ()
) -> list[ir.Tensor]:
    """Adjoints of `wrt`, given cotangents of other tensors. With `lead`, cotangents have extra axes in front.

    >>> x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    >>> y = ir.comp((), ir.op("*", (ir.whole(x), ir.whole(x)), "f64"), "sum", (3,))
    >>> gradients({y: ones(())}, [x])[0].shape
    (3,)
    """
    reverse = Reverse(lead)
    for node, cotangent in seeds.items():
        reverse.contribute(node, cotangent)
    reverse.run(tuple(seeds), wrt)
    return [reverse.total(x) or zeros((*lead, *x.shape), x.dtype) for x in wrt]


def ones(shape: tuple[Size, ...], dtype: str = "float") -> ir.Tensor:
    return ir.comp(shape, ir.const(1.0, dtype))


def zeros(shape: tuple[Size, ...], dtype: str = "float") -> ir.Tensor:
    return ir.comp(shape, zero(dtype))


class Reverse:
    """The bookkeeping of one backward pass."""

    def __init__(self, lead: tuple[Size, ...] = ()):
        self.lead = lead
        self.parts: dict[ir.Node, list[ir.Tensor]] = {}
        self.totals: dict[ir.Node, ir.Tensor] = {}

    def contribute(self, node: ir.Node, part: ir.Tensor) -> None:
        self.parts.setdefault(node, []).append(part)
        self.totals.pop(node, None)

    def total(self, node: ir.Node) -> ir.Tensor | None:
        """The sum of all contributions to a node."""
        parts = self.parts.get(node)
        if not parts:
            return None
        if node not in self.totals:
            body: ir.Scalar = ir.whole(parts[0])
            for part in parts[1:]:
                body = d.add(body, ir.whole(part))
            self.totals[node] = ir.comp(parts[0].shape, body, name=_name(node), span=getattr(node, "span", ir.NOWHERE))
        return self.totals[node]

    def run(self, roots: tuple[ir.Node, ...], wrt: Iterable[ir.Node]) -> None:
        """Visit the nodes between the roots and `wrt`, last first."""
        order = ir.schedule(roots)
        targets = set(wrt)
        needed: set[ir.Node] = set()
        for node in order:
            if node in targets or any(a in needed for a in ir.arguments(node)):
                needed.add(node)
        self.needed = needed
        for node in reversed(order):
            if node in needed and (node not in targets or node in roots):
                if node in targets and node not in roots:
                    continue
                if node in targets:
                    continue
                self.visit(node)

    def visit(self, node: ir.Node) -> None:
        match node:
            case ir.Comp():
                cotangent = self.total(node)
                if cotangent is not None:
                    self.comp(node, cotangent)
            case ir.Scatter():
                cotangent = self.total(node)
                if cotangent is not None:
                    self.scatter(node, cotangent)
            case ir.Reshape():
                cotangent = self.total(node)
                if cotangent is not None:
                    shape = (*self.lead, *node.of.shape)
                    self.contribute(node.of, ir.intern(ir.Reshape(cotangent, shape, cotangent.dtype, _name(node.of))))
            case ir.Along() | ir.External() | ir.Custom() | ir.Scan():
                self.several(node)
            case ir.Part():
                cotangent = self.total(node)
                if cotangent is not None:
                    self.parts.setdefault(node.of, [])
                    self.part_cotangents.setdefault(node.of, {})[node.number] = cotangent

    # ---- comprehensions

    def comp(self, node: ir.Comp, cotangent: ir.Tensor) -> None:
        count = len(self.lead)
        kept = len(node.shape)
        sizes = (*self.lead, *node.shape, *node.reduced)
        body = shift(node.body, count, kept + len(node.reduced))
        seed: ir.Scalar = ir.whole(cotangent)
        if node.op in ("max", "min"):
            seed = self.shared_maximum(node, body, seed)
        elif node.op == "prod":
            seed = d.mul(seed, self.other_factors(node, body))
        elif node.op not in (None, "sum"):
            return
        self.reads(body, seed, sizes)

    def shared_maximum(self, node: ir.Comp, body: ir.Scalar, seed: ir.Scalar) -> ir.Scalar:
        """Every place that reaches the maximum gets an equal share."""
        kept = len(node.shape)
        count = len(self.lead)
        here = ir.read(node, tuple(ir.plain(i) for i in range(kept)))
        hits = ir.comp(
            node.shape,
            ir.op("select", (ir.op("==", (node.body, here), "bool"), d.number(1.0), d.number(0.0)), node.dtype),
            "sum",
            node.reduced,
        )
        places = tuple(ir.plain(count + i) for i in range(kept))
        hit = ir.op("==", (body, ir.read(node, places)), "bool")
        return d.choose(hit, d.div(seed, ir.read(hits, places)), zero(seed.dtype))

    def other_factors(self, node: ir.Comp, body: ir.Scalar) -> ir.Scalar:
        """The product of all factors but one, so that zeros do no harm."""
        kept, reduced = len(node.shape), len(node.reduced)
        shape = (*node.shape, *node.reduced)
        forms = {n: keep(n if n < kept else n + reduced) for n in range(kept + reduced)}
        other = Change(forms).scalar(node.body)
        same: ir.Scalar | None = None
        for k in range(reduced):
            equal = ir.op("==", (ir.var(kept + k), ir.var(kept + reduced + k)), "bool")
            same = equal if same is None else ir.op("and", (same, equal), "bool")
        assert same is not None
        rest = ir.comp(shape, d.choose(same, d.number(1.0), other), "prod", node.reduced)
        return ir.read(rest, tuple(ir.plain(len(self.lead) + i) for i in range(kept + reduced)))

    def reads(self, body: ir.Scalar, seed: ir.Scalar, sizes: tuple[Size, ...]) -> None:
        """Adjoints of all reads of a body, each turned into a contribution to the tensor it reads."""
        adjoint: dict[ir.Scalar, ir.Scalar] = {body: seed}
        order = list(ir.scalars(body))
        active: set[ir.Scalar] = set()
        for s in order:
            if isinstance(s, ir.Read):
                alive = is_float(s.dtype) and (s.tensor in self.needed or (s.outside is not None and s.outside in active))
            else:
                alive = isinstance(s, ir.Op) and s.name not in d.FLAT and any(x in active for x in s.args)
            if alive:
                active.add(s)
        for s in reversed(order):
            a = adjoint.get(s)
            if a is None or s not in active or d.is_zero(a):
                continue
            if isinstance(s, ir.Read):
                if s.outside is not None and s.outside in active:
                    _accumulate(adjoint, s.outside, d.choose(_inside(s), zero(a.dtype), a))
                if s.tensor in self.needed:
                    self.transpose(s, a, sizes)
            elif isinstance(s, ir.Op):
                if s.name not in d.RULES:
                    raise NoDerivative(f"`{s.name}`", ir.comp((), s))
                for argument, part in zip(s.args, d.RULES[s.name](s, a), strict=True):
                    if part is not None and argument in active:
                        _accumulate(adjoint, argument, part)

    # ---- reads to contributions

    def transpose(self, read: ir.Read, adjoint: ir.Scalar, sizes: tuple[Size, ...]) -> None:
        """Turn `for all variables: dx[places] += adjoint` into a tensor."""
        count = len(self.lead)
        shape = (*self.lead, *read.tensor.shape)
        places = (*(ir.plain(k) for k in range(count)), *read.places)
        self.contribute(read.tensor, transposed(shape, places, adjoint, sizes, _name(read.tensor)))

    def scatter(self, node: ir.Scatter, cotangent: ir.Tensor) -> None:
        """The adjoint of a scatter is a gather."""
        count = len(self.lead)
        sizes = (*self.lead, *node.ranges)
        change = Change({n: keep(n + count) for n in range(len(node.ranges))})
        body = change.scalar(node.body)
        places = (*(ir.plain(k) for k in range(count)), *(change.place(x) for x in node.places))
        seed: ir.Scalar = ir.read(cotangent, places)
        if node.base is not None and node.base in self.needed:
            if node.op != "+":
                raise NoDerivative(f"`{node.op}=` onto an earlier value", node)
            self.contribute(node.base, cotangent)
        if node.op != "+":
            at = places[count:]
            best = ir.read(node, at)
            hit = ir.op("==", (body, best), "bool")
            plain_hit = ir.op("==", (node.body, ir.read(node, node.places)), "bool")
            one = ir.op("select", (plain_hit, d.number(1.0), d.number(0.0)), node.dtype)
            hits = ir.intern(ir.Scatter(node.shape, node.ranges, node.places, "+", one, None, node.dtype))
            seed = d.choose(hit, d.div(seed, ir.read(hits, at)), zero(seed.dtype))
        self.reads(body, seed, sizes)

    # ---- nodes with several values

    part_cotangents: dict[ir.Node, dict[int, ir.Tensor]]

    def several(self, node: ir.Node) -> None:
        from dslc.autodiff import rules

        cotangents = self.part_cotangents.get(node, {})
        if cotangents:
            rules.visit(self, node, cotangents)

    def __new__(cls, *args: object, **kwargs: object) -> Reverse:
        made = super().__new__(cls)
        made.part_cotangents = {}
        return made


def _accumulate(table: dict[ir.Scalar, ir.Scalar], key: ir.Scalar, part: ir.Scalar) -> None:
    table[key] = d.add(table[key], part) if key in table else part


def _name(node: ir.Node) -> str:
    name = getattr(node, "name", "")
    return f"d_{name}" if name else ""


def _inside(read: ir.Read) -> ir.Scalar:
    """The condition under which a guarded read stays inside."""
    total: ir.Scalar | None = None
    change = Change({n: keep(n) for n in range(64)})
    for place, size in zip(read.places, read.tensor.shape, strict=True):
        if isinstance(place, ir.Affine):
            if place.mode != "inside":
                continue
            at: ir.Scalar = change.value(Form(place.terms, place.offset))
            tests = []
            if place.divisor != 1:
                divisor = ir.intern(ir.SizeOf(place.divisor))
                tests.append(ir.op("==", (ir.op("%", (at, divisor), "i64"), ir.const(0, "i64")), "bool"))
                at = ir.op("//", (at, divisor), "i64")
        elif isinstance(place, ir.Data):
            if place.mode != "inside":
                continue
            at, tests = place.value, []
        else:
            at, tests = ir.op("+", (ir.read(place.step, ()), ir.intern(ir.SizeOf(place.offset))), "i64"), []
        tests.append(ir.op(">=", (at, ir.const(0, "i64")), "bool"))
        tests.append(ir.op("<", (at, ir.intern(ir.SizeOf(size))), "bool"))
        for test in tests:
            total = test if total is None else ir.op("and", (total, test), "bool")
    assert total is not None
    return total


def transposed(
    shape: tuple[Size, ...], places: tuple[ir.Place, ...], body: ir.Scalar, sizes: tuple[Size, ...], name: str = ""
) -> ir.Tensor:
    """`result[places] += body` over all variables: a gather where the places can be solved, else a scatter."""
    try:
        solved = solve(shape, places, sizes)
        if solved is not None:
            return gather(shape, body, sizes, *solved, name)
    except NotAffine:
        pass
    return ir.intern(ir.Scatter(shape, sizes, places, "+", body, None, body.dtype, name))


Solution = tuple[dict[int, Form], list[tuple[Form, Size]], list[tuple[int, Form]]]


def solve(shape: tuple[Size, ...], places: tuple[ir.Place, ...], sizes: tuple[Size, ...]) -> Solution | None:
    """Express one variable of each place by the position that it produces.

    Gives the eliminated variables, the ranges that they must be checked against, and the positions that must be
    equal to something (a variable that stands in two places).
    """
    table: dict[int, Form] = {}
    checks: list[tuple[Form, Size]] = []
    equalities: list[tuple[int, Form]] = []
    rank = len(shape)
    for position, place in enumerate(places):
        if not isinstance(place, ir.Affine) or place.mode != "inside" or place.divisor != 1:
            return None
        offset: Size = place.offset
        terms: dict[int, Size] = {}  # over positions 0..rank-1 and variables rank + n
        open_: list[tuple[int, Size]] = []
        for number, coefficient in place.terms:
            if number in table:
                form = table[number]
                if form.divisor != 1:
                    return None
                offset = tidy(offset + coefficient * form.offset)
                for n, c in form.terms:
                    terms[n] = tidy(terms.get(n, 0) + coefficient * c)
            else:
                open_.append((number, coefficient))
        if not open_:
            equalities.append((position, Form(tuple(terms.items()), offset)))
            continue
        chosen, coefficient = max(open_, key=lambda t: _weight(sizes[t[0]], t[1]))
        sign = 1
        if isinstance(coefficient, int) and coefficient < 0:
            sign, coefficient = -1, -coefficient
        elif not isinstance(coefficient, int):
            return None
        solved: dict[int, Size] = {position: sign}
        for n, c in terms.items():
            solved[n] = tidy(solved.get(n, 0) - sign * c)
        for n, c in open_:
            if n != chosen:
                solved[rank + n] = tidy(solved.get(rank + n, 0) - sign * c)
        form = Form(tuple((n, c) for n, c in solved.items() if c != 0), tidy(-sign * offset), coefficient)
        table[chosen] = form
        exact = form == Form(((position, 1),)) and sizes[chosen] == shape[position]
        if not exact:
            checks.append((form, sizes[chosen]))
    return table, checks, equalities


def _weight(size: Size, coefficient: Size) -> tuple[int, float]:
    """Which variable to solve for: symbolic sizes are taken to be long, so the short one stays in the sum."""
    if isinstance(size, int):
        return 0, float(size)
    return 1, 1.0 if coefficient in (1, -1) else 2.0


def gather(
    shape: tuple[Size, ...],
    body: ir.Scalar,
    sizes: tuple[Size, ...],
    table: dict[int, Form],
    checks: list[tuple[Form, Size]],
    equalities: list[tuple[int, Form]],
    name: str,
) -> ir.Tensor:
    """The solved form: output variables are positions, the variables that were not eliminated are summed."""
    rank = len(shape)
    rest = [n for n in range(len(sizes)) if n not in table]
    number = {rank + n: rank + k for k, n in enumerate(rest)}

    def renumber(form: Form) -> Form:
        return Form(tuple((number.get(n, n), c) for n, c in form.terms), form.offset, form.divisor)

    forms = {n: renumber(table[n]) if n in table else keep(number[rank + n]) for n in range(len(sizes))}
    loose = frozenset(n for n, form in table.items() if any(form is f for f, _ in checks))
    change = Change(forms, guard=loose)
    new = change.scalar(body)
    tests: list[ir.Scalar] = []
    for form, size in checks:
        if not _guards_itself(new, body, form, table):
            tests += _in_range(change, renumber(form), size)
    for position, form in equalities:
        at = change.value(renumber(form))
        tests.append(ir.op("==", (ir.var(position), at), "bool"))
    for test in tests:
        new = d.choose(test, new, zero(new.dtype))
    reduced = tuple(sizes[n] for n in rest)
    return ir.comp(shape, new, "sum" if reduced else None, reduced, name)


def _in_range(change: Change, form: Form, size: Size) -> list[ir.Scalar]:
    top = change.value(Form(form.terms, form.offset))
    tests: list[ir.Scalar] = []
    at = top
    if form.divisor != 1:
        divisor = ir.intern(ir.SizeOf(form.divisor))
        tests.append(ir.op("==", (ir.op("%", (top, divisor), "i64"), ir.const(0, "i64")), "bool"))
        at = ir.op("//", (top, divisor), "i64")
    tests.append(ir.op(">=", (at, ir.const(0, "i64")), "bool"))
    tests.append(ir.op("<", (at, ir.intern(ir.SizeOf(size))), "bool"))
    return tests


def _guards_itself(new: ir.Scalar, old: ir.Scalar, form: Form, table: Mapping[int, Form]) -> bool:
    """A product with a factor that is read at the eliminated variable is 0 outside without a test."""
    variable = next(n for n, f in table.items() if f is form)
    stack = [old]
    found = False
    while stack:
        s = stack.pop()
        if isinstance(s, ir.Op) and s.name in ("*", "neg"):
            stack.extend(s.args)
        elif isinstance(s, ir.Read):
            for place in s.places:
                if isinstance(place, ir.Affine) and place.terms == ((variable, 1),) and place.offset == 0:
                    found = True
                elif not isinstance(place, ir.Affine):
                    return False
        elif not isinstance(s, ir.Const | ir.SizeOf):
            return False
    return found
