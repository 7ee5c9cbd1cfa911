"""What rules look at: operations by name, through names that the spec gave to parts of a formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.algebra import add, is_one, mul
from dslc.ir.rewrite import Change, Form, NotAffine, compose, keep
from dslc.ops.elementary import is_square
from dslc.ops.table import RECORDS
from dslc.sizes import Size

#: how many names a rule looks through
DEPTH = 6


def op(name: str, *args: ir.Scalar) -> ir.Scalar:
    """An operation in the dtype of its first argument; what gives floats, as a logarithm, does so of whole numbers."""
    whole = RECORDS[name].gives == "float" and not is_float(args[0].dtype)
    return ir.op(name, args, "float" if whole else args[0].dtype)


def negative(x: ir.Scalar) -> ir.Scalar:
    """-x: x for -x, and with the sign of a number changed where there is one."""
    if isinstance(x, ir.Const):
        return ir.const(-x.value, x.dtype)
    match x:
        case ir.Op("neg"):
            return x.args[0]
        case ir.Op("/") if is_number(x.args[1]):
            return ir.op("/", (x.args[0], negative(x.args[1])), x.dtype)
        case ir.Op("*") if is_number(x.args[0]):
            return ir.op("*", (negative(x.args[0]), x.args[1]), x.dtype)
    return op("neg", x)


def is_number(s: ir.Scalar) -> bool:
    """Is it known without any input?"""
    return isinstance(s, ir.Const) or (isinstance(s, ir.Op) and all(isinstance(x, ir.Const) for x in s.args))


def half(x: ir.Scalar) -> ir.Scalar:
    return mul(ir.const(0.5, x.dtype), x)


def twice(x: ir.Scalar) -> ir.Scalar:
    """2 x: y for y / 2 and for y 0.5"""
    factor, y = multiple(x)
    return y if factor == 0.5 else mul(ir.const(2.0, x.dtype), x)


def multiple(s: ir.Scalar) -> tuple[float, ir.Scalar]:
    """c and x of c x, x c and x / (1 / c) with a number c; 1 and x for all else."""
    match s:
        case ir.Op("*", (a, b)):
            for x, c in ((b, constant(a)), (a, constant(b))):
                if c is not None:
                    return c, x
        case ir.Op("/", (a, b)) if constant(b):
            return 1 / (constant(b) or 1), a
    return 1.0, s


def constant(s: ir.Scalar) -> float | None:
    """The value of a number."""
    if not isinstance(s, ir.Const) or isinstance(s.value, bool):
        return None
    return float(s.value)


# ---- through names ----------------------------------------------------------------------------------


def is_named(s: ir.Scalar) -> bool:
    """Is it the value of a formula without a reduction, read at places inside?"""
    return isinstance(s, ir.Read) and s.outside is None and isinstance(s.tensor, ir.Comp) and s.tensor.op is None


def head(s: ir.Scalar) -> str:
    """The outermost operation of a formula, looked up through names; empty for what is no operation."""
    for _ in range(DEPTH):
        if isinstance(s, ir.Op):
            return s.name
        if not is_named(s):
            return ""
        assert isinstance(s, ir.Read) and isinstance(s.tensor, ir.Comp)
        s = s.tensor.body
    return ""


def see(s: ir.Scalar) -> ir.Scalar:
    """The formula behind names, in the variables of the reader."""
    for _ in range(DEPTH):
        if not is_named(s):
            return s
        assert isinstance(s, ir.Read)
        found = inlined(s)
        if found is None:
            return s
        s = found
    return s


def seen(s: ir.Scalar, *names: str) -> ir.Op | None:
    """The operation behind names, if it is one of these."""
    if head(s) not in names:
        return None
    found = see(s)
    return found if isinstance(found, ir.Op) else None


def inlined(read: ir.Read) -> ir.Scalar | None:
    """The body of a tensor at the places where it is read; None where places cannot express it."""
    assert isinstance(read.tensor, ir.Comp)
    done: dict[ir.Scalar, ir.Scalar] = {}
    try:
        for s in ir.scalars(read.tensor.body):
            done[s] = _moved(s, read.places, done)
    except NotAffine:
        return None
    return done[read.tensor.body]


def _moved(s: ir.Scalar, places: tuple[ir.Place, ...], done: dict[ir.Scalar, ir.Scalar]) -> ir.Scalar:
    if isinstance(s, ir.Var):
        return _value(places[s.number])
    if not isinstance(s, ir.Read):
        return ir.rebuild(s, lambda x: done[x])
    moved: list[ir.Place] = []
    for p in s.places:
        if isinstance(p, ir.Affine):
            moved.append(composed(p, dict(enumerate(places))))
        elif isinstance(p, ir.Data):
            moved.append(ir.intern(ir.Data(done[p.value], p.mode)))
        else:
            moved.append(p)
    outside = None if s.outside is None else done[s.outside]
    return ir.intern(ir.Read(s.tensor, tuple(moved), s.dtype, outside))


def composed(place: ir.Affine, places: Mapping[int, ir.Place]) -> ir.Place:
    """An affine place of variables that stand for other places."""
    used = [places[n] for n, _ in place.terms]
    if len(used) == 1 and place is ir.plain(place.terms[0][0]):
        return used[0]
    if all(isinstance(p, ir.Affine) and p.mode == "inside" for p in used):
        forms = {n: Form(p.terms, p.offset, p.divisor) for n, p in places.items() if isinstance(p, ir.Affine)}
        return compose(place, forms)
    if place.divisor != 1:
        raise NotAffine
    total: ir.Scalar = ir.intern(ir.SizeOf(place.offset))
    for n, coefficient in place.terms:
        total = _plus(total, _times(coefficient, _value(places[n])))
    return ir.intern(ir.Data(total, place.mode))


def _value(place: ir.Place) -> ir.Scalar:
    """A place as a number."""
    match place:
        case ir.Data():
            if place.mode != "inside":
                raise NotAffine
            return place.value
        case ir.At():
            return _plus(ir.intern(ir.SizeOf(place.offset)), ir.read(place.step, ()))
    if place.mode != "inside" or place.divisor != 1:
        raise NotAffine
    total: ir.Scalar = ir.intern(ir.SizeOf(place.offset))
    for n, coefficient in place.terms:
        total = _plus(total, _times(coefficient, ir.var(n)))
    return total


def _plus(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    return b if isinstance(a, ir.SizeOf) and a.size == 0 else add(a, b)


def _times(c: Size, x: ir.Scalar) -> ir.Scalar:
    return x if c == 1 else ir.op("*", (ir.intern(ir.SizeOf(c)), x), "i64")


def renumbered(s: ir.Scalar, numbers: tuple[int, ...]) -> ir.Scalar:
    """A body with variable k as variable numbers[k]."""
    return Change({k: keep(n) for k, n in enumerate(numbers)}).scalar(s)


def axes_at(places: Sequence[ir.Place], others: Sequence[ir.Place]) -> list[int] | None:
    """Which of the other places each place is; None where one of them is not there exactly once."""
    where = [[i for i, x in enumerate(others) if x is place] for place in places]
    return [x[0] for x in where] if all(len(x) == 1 for x in where) else None


# ---- signs ------------------------------------------------------------------------------------------


#: how many operations and names deep the sign of a formula is looked for
SIGNS = 12


def nonnegative(s: ir.Scalar, depth: int = SIGNS) -> bool:
    """Is it known to be 0 or more (or NaN)?"""
    return NONNEGATIVE[depth](s) if depth > 0 else False


def _nonnegative(s: ir.Scalar, depth: int) -> bool:
    match s:
        case ir.Const():
            return not isinstance(s.value, bool) and s.value >= 0
        case ir.SizeOf() | ir.Rand():
            return True
        case ir.Read():
            node = s.tensor
            if s.outside is not None and not nonnegative(s.outside, depth - 1):
                return False
            return (
                isinstance(node, ir.Comp)
                and node.op in (None, "sum", "max", "min", "prod")
                and nonnegative(node.body, depth - 1)
            )
        case ir.Op("+" | "*" | "/" | "min"):
            return is_square(s) or all(nonnegative(x, depth - 1) for x in s.args)
        case ir.Op("select"):
            return all(nonnegative(x, depth - 1) for x in s.args[1:])
        case ir.Op("stop_grad" | "cast"):
            return nonnegative(s.args[0], depth - 1)
        case ir.Op("^" | "pow"):
            n = constant(s.args[1])
            return (n is not None and n % 2 == 0) or nonnegative(s.args[0], depth - 1)
        case ir.Op("max"):
            return any(nonnegative(x, depth - 1) for x in s.args)
        case ir.Op():
            return RECORDS[s.name].range[0] >= 0 and RECORDS[s.name].gives != "bool"
    return False


#: `_nonnegative` for each depth: a value that is used many times is looked at once
NONNEGATIVE = tuple(ir.remembered(partial(_nonnegative, depth=depth)) for depth in range(SIGNS + 1))


def one_of(s: ir.Op) -> ir.Scalar | None:
    """x of 1 + x and of x + 1."""
    a, b = s.args
    return b if is_one(a) else a if is_one(b) else None
