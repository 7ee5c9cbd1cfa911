"""From `for all variables: result[places] += body` to a tensor: a gather where the places can be solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
            return gather(shape, body, sizes, solved, name)
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


@dataclass
class Solution:
    """Variables expressed by the positions that they produce, and what must hold besides."""

    #: eliminated variable -> its form over positions 0 .. rank - 1 and other variables, as rank + number
    table: dict[int, Form] = field(default_factory=dict)
    #: eliminated variables that may leave their range
    loose: list[int] = field(default_factory=list)
    #: positions that must be equal to a form (a variable that stands in two places)
    equalities: list[tuple[int, Form]] = field(default_factory=list)


def solve(shape: tuple[Size, ...], places: tuple[ir.Place, ...], sizes: tuple[Size, ...]) -> Solution | None:
    """Express one variable of each place by the position that it produces; None where that is not possible."""
    found = Solution()
    rank = len(shape)
    for position, place in enumerate(places):
        if not isinstance(place, ir.Affine) or place.mode != "inside":
            return None
        form = _substituted(Form(tuple((rank + n, c) for n, c in place.terms), place.offset), found.table, rank)
        if form is None:
            return None
        open_ = [(n - rank, c) for n, c in form.terms if n >= rank]
        if not open_:
            if place.divisor != 1:
                return None
            found.equalities.append((position, form))
            continue
        chosen, coefficient = max(open_, key=lambda t: _weight(sizes[t[0]], t[1]))
        if not isinstance(coefficient, int):
            return None
        sign = 1 if coefficient > 0 else -1
        reached = {position: tidy(sign * place.divisor)}  # the sum of all terms is the divisor times the position
        terms = {**reached, **{n: tidy(-sign * c) for n, c in form.terms if n != rank + chosen}}
        solved = Form(tuple(terms.items()), tidy(-sign * form.offset), abs(coefficient))
        for n, earlier in found.table.items():
            again = _substituted(earlier, {chosen: solved}, rank)
            if again is None:
                return None
            found.table[n] = again
        found.table[chosen] = solved
        if solved != Form(((position, 1),)) or sizes[chosen] != shape[position]:
            found.loose.append(chosen)
    return found


def _substituted(form: Form, table: Mapping[int, Form], rank: int) -> Form | None:
    """A form with the variables of a table replaced; None where a quotient would stand in it."""
    offset = form.offset
    terms: dict[int, Size] = {}
    for number, coefficient in form.terms:
        instead = table.get(number - rank)
        if number < rank or instead is None:
            terms[number] = tidy(terms.get(number, 0) + coefficient)
            continue
        if instead.divisor != 1:
            return None
        offset = tidy(offset + coefficient * instead.offset)
        for n, c in instead.terms:
            terms[n] = tidy(terms.get(n, 0) + coefficient * c)
    return Form(tuple((n, c) for n, c in terms.items() if c != 0), offset, form.divisor)


def _weight(size: Size, coefficient: Size) -> tuple[int, float]:
    """Which variable to solve for: symbolic sizes are taken to be long, so the short one stays in the sum."""
    if isinstance(size, int):
        return 0, float(size)
    return 1, 1.0 if coefficient in (1, -1) else 2.0


def gather(
    shape: tuple[Size, ...], body: ir.Scalar, sizes: tuple[Size, ...], solution: Solution, name: str
) -> ir.Tensor:
    """The solved form: output variables are positions, the variables that were not eliminated are summed."""
    rank = len(shape)
    rest = [n for n in range(len(sizes)) if n not in solution.table]
    number = {rank + n: rank + k for k, n in enumerate(rest)}

    def renumber(form: Form) -> Form:
        return Form(tuple((n if n < rank else number[n], c) for n, c in form.terms), form.offset, form.divisor)

    forms = {
        n: renumber(solution.table[n]) if n in solution.table else keep(number[rank + n]) for n in range(len(sizes))
    }
    change = Change(forms, guard=frozenset(solution.loose))
    new = change.scalar(body)
    tests: list[ir.Scalar] = []
    for variable in solution.loose:
        if not _guards_itself(body, variable, sizes[variable]):
            at = forms[variable]
            tests += _in_range(change.value(Form(at.terms, at.offset)), at.divisor, sizes[variable])
    for position, form in solution.equalities:
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
