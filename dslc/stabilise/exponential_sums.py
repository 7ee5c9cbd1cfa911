"""Sums of exponentials, over indices, over a scatter or written out: S = exp(m) T with m the largest exponent.

T lies between 1 and the number of terms, so nothing overflows; m takes no part in derivatives, for S does not depend
on it. Where all exponents are -inf, T is 0; the share of a term in such a sum is taken as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.algebra import choose, div, is_zero, mul, sub
from dslc.stabilise.matching import constant, head, negative, nonnegative, op, renumbered, see, seen
from dslc.stabilise.membership import is_at

LOWEST = float("-inf")


@dataclass(frozen=True)
class Term:
    """weight * exp(exponent); a condition on the term is one on its exponent."""

    weight: ir.Scalar | None
    exponent: ir.Scalar


@dataclass(frozen=True)
class Shifted:
    """A sum exp(peak) * total."""

    #: the largest exponent, without a derivative
    peak: ir.Scalar
    total: ir.Scalar
    #: the terms written out
    terms: tuple[Term, ...] = ()
    #: the reads of sums over indices
    sums: tuple[ir.Read, ...] = ()
    weighted: bool = False
    #: a peak that is not above this number is not taken off
    above: float = LOWEST

    @property
    def shift(self) -> ir.Scalar:
        return finite(self.peak, self.above)

    def has(self, exponent: ir.Scalar) -> bool:
        """Is the exponential of this exponent a term of the sum?"""
        if any(t.exponent is exponent for t in self.terms):
            return True
        for read in self.sums:
            node = read.tensor
            assert isinstance(node, ir.Comp | ir.Scatter)
            own = term(node.body)
            if own is not None and is_at(own.exponent, exponent, read, node):
                return True
        return False

    def share(self, weight: ir.Scalar | None, exponent: ir.Scalar) -> ir.Scalar:
        """weight exp(exponent) / S"""
        total = filled(self.total) if not self.weighted and self.has(exponent) else self.total
        gap = sub(exponent, self.shift)
        top = op("exp", gap if weight is None or not self.weighted else bounded(gap, weight))
        return div(top if weight is None else mul(weight, top), total)


def finite(m: ir.Scalar, above: float = LOWEST) -> ir.Scalar:
    """A shift: the maximum, or 0 where that is infinite, or not above a number."""
    usable = op_bool("isfinite", m)
    if above > LOWEST:
        usable = ir.op("and", (usable, op_bool(">", m, ir.const(above, m.dtype))), "bool")
    return choose(usable, m, ir.const(0.0, m.dtype))


def room(dtype: str) -> float:
    """An exponent whose exponential is finite, also times a large number."""
    return 350.0 if dtype == "f64" else 40.0


def bounded(gap: ir.Scalar, weight: ir.Scalar) -> ir.Scalar:
    """An exponent of which the exponential is finite: what has weight 0 may lie above the maximum of the others."""
    most = ir.const(700.0 if gap.dtype == "f64" else 80.0, gap.dtype)
    beyond = ir.op("and", (op_bool("==", weight, ir.const(0.0, weight.dtype)), op_bool(">", gap, most)), "bool")
    return choose(beyond, most, gap)


def filled(total: ir.Scalar) -> ir.Scalar:
    """A sum of shifted exponentials is 0 only if it has no term; then it may as well be 1."""
    none = ir.op("==", (total, ir.const(0.0, total.dtype)), "bool")
    return choose(none, ir.const(1.0, total.dtype), total)


def op_bool(name: str, *args: ir.Scalar) -> ir.Scalar:
    return ir.op(name, args, "bool")


#: how many operations deep a product is taken apart
NESTED = 24


def term(s: ir.Scalar, depth: int = NESTED) -> Term | None:
    """A product with exponentials among its factors, under a condition or not, as one exponential with a weight.

    A sum of exponentials by itself is none: see `exponential_sum`.
    """
    return None if isinstance(see(s), ir.Read) and product_of(s) is None else factor(s, depth)


def factor(s: ir.Scalar, depth: int = NESTED) -> Term | None:
    """weight exp(exponent) for what has an exponential in it; a value that many formulas name is looked at once."""
    return FACTORS[depth](s) if depth > 0 else None


def _factor(s: ir.Scalar, depth: int) -> Term | None:
    """weight exp(exponent) for what has an exponential in it, seen through names; None for all else.

    exp(x) exp(y) = exp(x + y); exp(x) / exp(y) = exp(x - y); exp(x)^n = exp(n x); c^x = exp(x log c);
    the product of exp(z) over indices is exp(the sum of z); a sum of exponentials is exp(m) T
    """
    inner = exponent_of_product(s, depth)
    if inner is not None:
        return inner
    name = head(s)
    if name not in ("exp", "exp2", "select", "*", "/", "^", "pow", "sqrt", "rsqrt"):
        total = exponential_sum(s, depth - 1)
        return None if total is None else Term(total.total, total.peak)
    found = see(s)
    if not isinstance(found, ir.Op):
        return None
    exponent = exponent_of(found)
    if exponent is not None:
        return Term(None, exponent)
    match found.name:
        case "select":
            condition, a, b = found.args
            t = factor(a if is_zero(b) else b, depth - 1) if is_zero(a) or is_zero(b) else None
            if t is None:
                return None
            low = ir.const(LOWEST, t.exponent.dtype)
            return replace(t, exponent=choose(condition, *((t.exponent, low) if is_zero(b) else (low, t.exponent))))
        case "*" | "/":
            return _joined(found, depth)
    power = {"sqrt": 0.5, "rsqrt": -0.5}.get(found.name) or constant(found.args[1])
    t = factor(found.args[0], depth - 1) if power is not None else None
    if t is None or power is None or t.weight is not None:
        return None
    return Term(None, mul(ir.const(power, t.exponent.dtype), t.exponent))


def exponent_of(s: ir.Scalar) -> ir.Scalar | None:
    """x of exp(x), x log 2 of exp2(x), x log c of c^x for a number c > 0"""
    base, x = _power(s)
    if base is None or not base > 0 or base == 1 or not is_float(s.dtype):
        return None
    x = x if is_float(x.dtype) else ir.cast(x, s.dtype)  # of a whole number, it is a float
    rate = math.log(base)
    if isinstance(x, ir.Op) and x.name == "neg":
        return mul(ir.const(-rate, s.dtype), x.args[0]) if rate != 1 else x
    return mul(ir.const(rate, s.dtype), x)


def _power(s: ir.Scalar) -> tuple[float | None, ir.Scalar]:
    """c and x of c^x, with exp(x) = e^x."""
    match s:
        case ir.Op("exp"):
            return math.e, s.args[0]
        case ir.Op("exp2"):
            return 2.0, s.args[0]
        case ir.Op("^" | "pow") if not isinstance(s.args[1], ir.Const):
            return constant(s.args[0]), s.args[1]
    return None, s


#: `_factor` for each depth
FACTORS = tuple(ir.remembered(partial(_factor, depth=depth)) for depth in range(NESTED + 1))


def _joined(s: ir.Op, depth: int) -> Term | None:
    """The product or quotient of two parts, at least one of them with an exponential."""
    a, b = (factor(x, depth - 1) for x in s.args)
    if a is None and b is None:
        return None
    p, q = (x if t is None else t.weight for x, t in zip(s.args, (a, b), strict=True))
    if s.name == "*":
        weight = p if q is None else q if p is None else mul(p, q)
        exponents = [t.exponent for t in (a, b) if t is not None]
        return Term(weight, exponents[0] if len(exponents) == 1 else _plus(*exponents))
    one = ir.const(1.0, "float")
    weight = p if q is None else div(one if p is None else p, q)
    if b is None:
        assert a is not None
        return Term(weight, a.exponent)
    return Term(weight, negative(b.exponent) if a is None else sub(a.exponent, b.exponent))


def _plus(x: ir.Scalar, y: ir.Scalar) -> ir.Scalar:
    return ir.op("+", (x, y), x.dtype)


def product_of(s: ir.Scalar) -> ir.Read | None:
    """A product over indices."""
    s = see(s) if isinstance(s, ir.Read) and head(s) == "" else s
    found = isinstance(s, ir.Read) and s.outside is None and isinstance(s.tensor, ir.Comp) and s.tensor.op == "prod"
    return s if found else None  # type: ignore[return-value]


def exponent_of_product(s: ir.Scalar, depth: int) -> Term | None:
    """The product of w exp(z) over indices is exp(the sum of z + log w); weights that may be 0 or less stay apart."""
    read = product_of(s)
    if read is None:
        return None
    node = read.tensor
    assert isinstance(node, ir.Comp)
    t = factor(node.body, depth - 1)
    if t is None:
        return None
    exponent, weight = t.exponent, None
    if t.weight is not None and is_reciprocal(t.weight):
        exponent = _plus(exponent, ir.op("log", (t.weight,), exponent.dtype))
    elif t.weight is not None:
        weight = ir.read(ir.comp(node.shape, t.weight, "prod", node.reduced, span=node.span), read.places)
    total = ir.comp(node.shape, exponent, "sum", node.reduced, span=node.span)
    return Term(weight, ir.read(total, read.places))


def is_reciprocal(s: ir.Scalar, depth: int = NESTED) -> bool:
    """Is it made of positive numbers and of 1 / x with x >= 0? Then it is not 0, and has a logarithm."""
    found = see(s) if depth else s
    match found:
        case ir.Const():
            return not isinstance(found.value, bool) and found.value > 0
        case ir.SizeOf() | ir.Op("rsqrt"):
            return True
        case ir.Op("*", (a, b)):
            return is_reciprocal(a, depth - 1) and is_reciprocal(b, depth - 1)
        case ir.Op("/", (a, b)):
            return is_reciprocal(a, depth - 1) and nonnegative(b)
        case ir.Op("^", (a, ir.Const() as n)):
            return nonnegative(a) if n.value < 0 else is_reciprocal(a, depth - 1)
        case ir.Op("sqrt", (a,)):
            return is_reciprocal(a, depth - 1)
    return False


def exponential_sum(s: ir.Scalar, depth: int = NESTED) -> Shifted | None:
    """A sum over indices, or a sum of such sums, of exponentials and of positive numbers."""
    single = indexed_sum(s, depth)
    if single is not None:
        return single
    parts = addends(s, depth) if head(s) == "+" else None
    return None if parts is None else joined(*parts)


def addends(s: ir.Scalar, depth: int = NESTED, above: float = LOWEST) -> tuple[list[Term], list[Shifted]] | None:
    """The exponentials that are written out in a sum (or one by itself), and its sums over indices."""
    sums, terms = [], []
    for x in _addends(s):
        if _is_nothing(x):
            continue
        if (i := indexed_sum(x, depth, above)) is not None:
            sums.append(i)
        elif (t := written(x, depth - 1)) is not None and not _is_written_with_shift(t.exponent):
            terms.append(t)
        else:
            return None
    return (terms, sums) if sums or any(constant(t.exponent) is None for t in terms) else None


def joined(terms: Sequence[Term], sums: Sequence[Shifted], above: float = LOWEST) -> Shifted:
    """All of them with one maximum taken off."""
    if len(sums) == 1 and not terms:
        return sums[0]
    peak: ir.Scalar | None = None
    for x in (*map(_counted, terms), *(i.peak for i in sums)):
        peak = x if peak is None else ir.op("max", (peak, x), x.dtype)
    assert peak is not None
    peak = op("stop_grad", peak)
    shift = finite(peak, above)
    total: ir.Scalar | None = None
    for t in terms:
        gap = sub(t.exponent, shift)
        part = op("exp", bounded(gap, t.weight) if t.weight is not None and _may_vanish(t.weight) else gap)
        part = part if t.weight is None else mul(t.weight, part)
        total = part if total is None else ir.op("+", (total, part), part.dtype)
    for i in sums:
        part = mul(i.total, op("exp", sub(i.peak if above == LOWEST else i.shift, shift)))
        total = part if total is None else ir.op("+", (total, part), part.dtype)
    assert total is not None
    weighted = any(t.weight is not None for t in terms) or any(i.weighted for i in sums)
    return Shifted(peak, total, tuple(terms), tuple(r for i in sums for r in i.sums), weighted, above)


def _may_vanish(weight: ir.Scalar) -> bool:
    value = constant(weight)
    return value is None or value == 0


def _counted(t: Term) -> ir.Scalar:
    """Its exponent; what has no weight does not count."""
    if t.weight is None or not _may_vanish(t.weight):
        return t.exponent
    none = op_bool("==", t.weight, ir.const(0.0, t.weight.dtype))
    return choose(none, ir.const(LOWEST, t.exponent.dtype), t.exponent)


def _is_nothing(s: ir.Scalar) -> bool:
    """Is it the number 0, which a loop starts to add from?"""
    s = see(s)
    while isinstance(s, ir.Op) and s.name == "cast":
        s = see(s.args[0])
    return constant(s) == 0


def _addends(s: ir.Scalar) -> list[ir.Scalar]:
    parts: list[ir.Scalar] = []
    stack = [s]
    while stack:
        x = stack.pop()
        plus = seen(x, "+")
        if plus is None:
            parts.append(x)
        else:
            stack += reversed(plus.args)
    return parts


def written(s: ir.Scalar, depth: int = NESTED) -> Term | None:
    """A term of a sum that is written out; a positive number c is c exp(0), and so is 0 x, where a loop may start."""
    value = constant(s)
    none = ir.const(0.0, "float")
    if value is None:
        start = seen(s, "*")
        is_start = start is not None and any(is_zero(x) for x in start.args)
        return Term(s, none) if is_start else term(s, depth)
    return None if not value > 0 else Term(None if value == 1 else s, none)


def indexed_sum(s: ir.Scalar, depth: int = NESTED, above: float = LOWEST) -> Shifted | None:
    """A sum of exponentials over indices, or into places, whose maximum has not been taken off yet."""
    if not isinstance(s, ir.Read) or s.outside is not None:
        return None
    node = s.tensor
    if isinstance(node, ir.Comp) and node.op == "sum":
        own = tuple(ir.plain(i) for i in range(len(node.shape)))
    elif isinstance(node, ir.Scatter) and node.op == "+" and node.base is None:
        own = node.places  # type: ignore[assignment]
    else:
        return None
    t = factor(node.body, depth - 1)
    if t is None or is_shifted(t, node):
        return None
    peak = _like(node, "max", _counted(t))
    gap = sub(t.exponent, finite(op("stop_grad", ir.read(peak, own)), above))
    top = op("exp", bounded(gap, t.weight) if t.weight is not None and _may_vanish(t.weight) else gap)
    total = _like(node, "sum", top if t.weight is None else mul(t.weight, top))
    here = op("stop_grad", ir.read(peak, s.places))
    return Shifted(here, ir.read(total, s.places), (), (s,), t.weight is not None, above)


def _like(node: ir.Comp | ir.Scatter, reduce: str, body: ir.Scalar) -> ir.Tensor:
    """The same reduction of another body."""
    if isinstance(node, ir.Comp):
        return ir.comp(node.shape, body, reduce, node.reduced, span=node.span)
    kind = "+" if reduce == "sum" else reduce
    made = ir.Scatter(node.shape, node.ranges, node.places, kind, body, None, body.dtype, span=node.span)
    return ir.intern(made)


def _has_shift(exponent: ir.Scalar) -> bool:
    """Is it z - m with a shift m that these rules made, and z one of the values of which m is the largest?"""
    if isinstance(exponent, ir.Op) and exponent.name == "select":
        exponent = exponent.args[2]
    match exponent:
        case ir.Op("-", (z, ir.Op("select", (ir.Op("isfinite"), ir.Op("stop_grad", (peak,)), _)))):
            return _is_among(z, peak)
        case ir.Op("-", (_, ir.Op("select", (ir.Op("and", (ir.Op("isfinite"), _)), ir.Op("stop_grad"), _)))):
            return True
        case ir.Op("-", (z, shift)) if head(shift) == "max":
            return _is_among(z, shift if isinstance(shift, ir.Op) else see(shift))
        case ir.Op("-", (_, ir.Read(tensor=tensor))):
            # what a scan keeps: of which values it is the largest cannot be seen here
            given = isinstance(tensor, ir.Part) and isinstance(tensor.of, ir.Custom)
            return not given and not isinstance(tensor, ir.Comp | ir.Scatter | ir.Input)
    return False


def _is_written_with_shift(exponent: ir.Scalar) -> bool:
    """Is it z - m with m the largest of some values that are written out? Those over indices need not all be here."""
    return _has_shift(exponent) and _peak_of(exponent) is None


def _is_among(z: ir.Scalar, peak: ir.Scalar) -> bool:
    """Is z one of the values of which this is the maximum?"""
    stack = [peak]
    while stack:
        m = stack.pop()
        if m is z or (isinstance(m, ir.Op) and m.name == "stop_grad" and m.args[0] is z):
            return True
        if isinstance(m, ir.Op) and m.name in ("max", "stop_grad"):
            stack += m.args
        elif isinstance(m, ir.Op) and m.name == "select":  # what has no weight does not count
            stack.append(m.args[2])
        elif isinstance(m, ir.Read) and isinstance(m.tensor, ir.Comp | ir.Scatter):
            body = m.tensor.body
            bodies = (body, body.args[2]) if isinstance(body, ir.Op) and body.name == "select" else (body,)
            if any(is_at(x, z, m, m.tensor) for x in bodies):
                return True
    return False


def is_shifted(t: Term, node: ir.Comp | ir.Scatter) -> bool:
    """Is its exponent z - max z, over what the node sums, with a weight that leaves the largest terms there?"""
    if not _has_shift(t.exponent) and not _has_own_shift(t.exponent, node):
        return False
    left = _vanishing(t.weight, node)
    peak = _peak_of(t.exponent) if left else None
    if peak is None:
        return True
    assert isinstance(peak.tensor, ir.Comp | ir.Scatter)
    match peak.tensor.body:
        case ir.Op("select", (ir.Op("==", (weight, _)), ir.Const(value=least), _)) if least == LOWEST:
            counted = _vanishing(weight, peak.tensor)
            return all(any(is_at(w, x, peak, peak.tensor) for w in counted) for x in left)
    return False


def _vanishing(weight: ir.Scalar | None, node: ir.Comp | ir.Scatter) -> list[ir.Scalar]:
    """The factors of a weight that can be 0 in some terms of a sum and not in others."""
    found: list[ir.Scalar] = []
    stack = [] if weight is None else [weight]
    while stack:
        x = stack.pop()
        match x:
            case ir.Op("*"):
                stack += x.args
            case ir.Op("/"):
                stack.append(x.args[0])
            case ir.Const() | ir.SizeOf():
                pass
            case _ if isinstance(node, ir.Scatter) or any(n >= len(node.shape) for n in ir.variables(x)):
                found.append(x)
    return found


def _peak_of(exponent: ir.Scalar) -> ir.Read | None:
    """The maximum over indices that is taken off an exponent, wherever it is finite."""
    if isinstance(exponent, ir.Op) and exponent.name == "select":
        exponent = exponent.args[2]
    shift = exponent.args[1] if isinstance(exponent, ir.Op) and exponent.name == "-" else exponent
    match shift:
        case ir.Op("select", (ir.Op("isfinite"), peak, _)):
            shift = peak
    if isinstance(shift, ir.Op) and shift.name == "stop_grad":
        shift = shift.args[0]
    is_peak = isinstance(shift, ir.Read) and isinstance(shift.tensor, ir.Comp | ir.Scatter) and shift.tensor.op == "max"
    return shift if is_peak else None  # type: ignore[return-value]


def _has_own_shift(exponent: ir.Scalar, node: ir.Comp | ir.Scatter) -> bool:
    """Is it z - max z with the maximum over the same indices?"""
    if not isinstance(exponent, ir.Op) or exponent.name != "-":
        return False
    z, shift = exponent.args
    if isinstance(shift, ir.Op) and shift.name == "stop_grad":
        shift = shift.args[0]
    if not isinstance(shift, ir.Read):
        return False
    peak = shift.tensor
    if isinstance(node, ir.Scatter):
        return isinstance(peak, ir.Scatter) and peak.op == "max" and peak.body is z and shift.places == node.places
    if not isinstance(peak, ir.Comp) or peak.op != "max" or len(peak.reduced) != len(node.reduced):
        return False
    kept = len(node.shape)
    outer = [k for p in shift.places for k in range(kept) if p is ir.plain(k)]
    if len(outer) != len(shift.places):
        return False
    return renumbered(peak.body, (*outer, *(kept + k for k in range(len(node.reduced))))) is z
