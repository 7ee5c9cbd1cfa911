"""From `for all variables: result[places] += body` to a tensor: a gather where the places can be solved."""

from __future__ import annotations

from dataclasses import replace

from dslc.autodiff import scalar as d
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, NotAffine, identity, keep, zero
from dslc.sizes import Size, tidy


def transposed(
    shape: tuple[Size, ...],
    places: tuple[ir.Place, ...],
    body: ir.Scalar,
    sizes: tuple[Size, ...],
    name: str = "",
    loose: bool = False,
) -> ir.Tensor:
    """`result[places] += body` over all variables, without those whose places are outside.

    A gather where the places can be solved, else a scatter. The places of a scatter must lie inside; `loose` says that
    these may not, so that they need a test.

    >>> x = ir.intern(ir.Input("x", "input", "f64", (4,)))
    >>> made = transposed((8,), (ir.affine(((0, 2),)),), ir.whole(x), (4,))  # y[2*i] += x[i]
    >>> type(made).__name__, made.reduced
    ('Comp', ())
    """
    try:
        solved = solve(shape, places, sizes)
        if solved is not None:
            return gather(shape, body, sizes, *solved, name)
    except NotAffine:
        pass
    if loose:
        test = inside(shape, places)
        body = body if test is None else d.choose(test, body, zero(body.dtype))
        places = tuple(_clamped(x) for x in places)
    return ir.intern(ir.Scatter(shape, sizes, places, "+", body, None, body.dtype, name))


def _clamped(place: ir.Place) -> ir.Place:
    if isinstance(place, ir.At):
        return ir.intern(ir.Data(_step_value(place), "clamp"))
    return ir.intern(replace(place, mode="clamp")) if place.mode == "inside" else place


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
        variable = next(n for n, f in table.items() if f is form)
        if not _guards_itself(body, variable, size):
            at = renumber(form)
            tests += _in_range(change.value(Form(at.terms, at.offset)), at.divisor, size)
    for position, form in equalities:
        tests.append(ir.op("==", (ir.var(position), change.value(renumber(form))), "bool"))
    for test in tests:
        new = d.choose(test, new, zero(new.dtype))
    reduced = tuple(sizes[n] for n in rest)
    return ir.comp(shape, new, "sum" if reduced else None, reduced, name)


def _guards_itself(body: ir.Scalar, variable: int, size: Size) -> bool:
    """A product with a factor that is read along an axis of just the range of the variable is 0 outside by itself."""
    found = False
    stack = [body]
    while stack:
        s = stack.pop()
        if isinstance(s, ir.Op) and s.name in ("*", "neg"):
            stack.extend(s.args)
        elif isinstance(s, ir.Read):
            if not all(isinstance(place, ir.Affine) for place in s.places):
                return False
            whole = ir.plain(variable)
            found |= s.outside is None and any(
                place is whole and axis == size for place, axis in zip(s.places, s.tensor.shape, strict=True)
            )
        elif not isinstance(s, ir.Const | ir.SizeOf):
            return False
    return found


def inside(shape: tuple[Size, ...], places: tuple[ir.Place, ...]) -> ir.Scalar | None:
    """The condition under which places lie inside; None when they always do."""
    tests: list[ir.Scalar] = []
    for place, size in zip(places, shape, strict=True):
        if isinstance(place, ir.At):
            tests += _in_range(_step_value(place), 1, size)
        elif place.mode == "inside":
            if isinstance(place, ir.Affine):
                variables = identity(1 + max((n for n, _ in place.terms), default=0))
                at = Change(variables).value(Form(place.terms, place.offset))
                tests += _in_range(at, place.divisor, size)
            else:
                tests += _in_range(place.value, 1, size)
    total: ir.Scalar | None = None
    for test in tests:
        total = test if total is None else ir.op("and", (total, test), "bool")
    return total


def _step_value(place: ir.At) -> ir.Scalar:
    number = ir.read(place.step, ())
    return number if place.offset == 0 else ir.op("+", (number, ir.intern(ir.SizeOf(place.offset))), "i64")


def _in_range(at: ir.Scalar, divisor: Size, size: Size) -> list[ir.Scalar]:
    """The conditions under which `at / divisor` is whole and in 0..size."""
    tests: list[ir.Scalar] = []
    if divisor != 1:
        by = ir.intern(ir.SizeOf(divisor))
        tests.append(ir.op("==", (ir.op("%", (at, by), "i64"), ir.const(0, "i64")), "bool"))
        at = ir.op("//", (at, by), "i64")
    tests.append(ir.op(">=", (at, ir.const(0, "i64")), "bool"))
    tests.append(ir.op("<", (at, ir.intern(ir.SizeOf(size))), "bool"))
    return tests
