"""Sums of exponentials, over indices, over a scatter or written out: S = exp(m) T with m the largest exponent.

T lies between 1 and the number of terms, so nothing overflows; m takes no part in derivatives, for S does not depend
on it. Where all exponents are -inf, T is 0; the share of a term in such a sum is taken as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dslc.ir import nodes as ir
from dslc.ir.algebra import choose, div, is_zero, mul, sub
from dslc.stabilise.matching import constant, head, op, renumbered, see, seen
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

    @property
    def shift(self) -> ir.Scalar:
        return finite(self.peak)

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


def finite(m: ir.Scalar) -> ir.Scalar:
    """A shift: the maximum, or 0 where that is infinite."""
    return choose(op_bool("isfinite", m), m, ir.const(0.0, m.dtype))


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


def term(s: ir.Scalar, depth: int = 4) -> Term | None:
    """An exponential, under a condition or with a weight."""
    if depth == 0 or head(s) not in ("exp", "select", "*", "/"):
        return None
    found = see(s)
    if not isinstance(found, ir.Op):
        return None
    match found.name:
        case "exp":
            return Term(None, found.args[0])
        case "select":
            condition, a, b = found.args
            if is_zero(b) and (t := term(a, depth - 1)) is not None:
                low = ir.const(LOWEST, t.exponent.dtype)
                return replace(t, exponent=choose(condition, t.exponent, low))
            if is_zero(a) and (t := term(b, depth - 1)) is not None:
                low = ir.const(LOWEST, t.exponent.dtype)
                return replace(t, exponent=choose(condition, low, t.exponent))
        case "/":
            a, b = found.args
            t = term(a, depth - 1)
            if t is not None and term(b, depth - 1) is None:
                one = ir.const(1.0, "float") if t.weight is None else t.weight
                return replace(t, weight=div(one, b))
        case "*":
            a, b = found.args
            for x, y in ((a, b), (b, a)):
                t = term(x, depth - 1)
                if t is not None and term(y, depth - 1) is None:
                    return replace(t, weight=y if t.weight is None else mul(t.weight, y))
    return None


def exponential_sum(s: ir.Scalar) -> Shifted | None:
    """A sum over indices, or a sum of such sums, of exponentials and of positive numbers."""
    single = indexed_sum(s)
    if single is not None:
        return single
    if head(s) != "+":
        return None
    parts = _addends(s)
    terms = [t for x in parts if (t := written(x)) is not None and not _has_shift(t.exponent)]
    sums = [i for x in parts if (i := indexed_sum(x)) is not None]
    if len(terms) + len(sums) != len(parts) or not (sums or any(constant(t.exponent) is None for t in terms)):
        return None
    peak: ir.Scalar | None = None
    for x in (*(t.exponent for t in terms), *(i.peak for i in sums)):
        peak = x if peak is None else ir.op("max", (peak, x), x.dtype)
    assert peak is not None
    peak = op("stop_grad", peak)
    shift = finite(peak)
    total: ir.Scalar | None = None
    for t in terms:
        part = op("exp", sub(t.exponent, shift))
        part = part if t.weight is None else mul(t.weight, part)
        total = part if total is None else ir.op("+", (total, part), part.dtype)
    for i in sums:
        part = mul(i.total, op("exp", sub(i.peak, shift)))
        total = part if total is None else ir.op("+", (total, part), part.dtype)
    assert total is not None
    weighted = any(t.weight is not None for t in terms) or any(i.weighted for i in sums)
    return Shifted(peak, total, tuple(terms), tuple(r for i in sums for r in i.sums), weighted)


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


def written(s: ir.Scalar) -> Term | None:
    """A term of a sum that is written out; a positive number c is c exp(0)."""
    value = constant(s)
    if value is None:
        return term(s)
    if not value > 0:
        return None
    return Term(None if value == 1 else s, ir.const(0.0, "float"))


def indexed_sum(s: ir.Scalar) -> Shifted | None:
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
    t = term(node.body)
    if t is None or is_shifted(t.exponent, node):
        return None
    exponent = t.exponent
    if t.weight is not None:  # what has no weight does not count
        none = op_bool("==", t.weight, ir.const(0.0, t.weight.dtype))
        exponent = choose(none, ir.const(LOWEST, exponent.dtype), exponent)
    peak = _like(node, "max", exponent)
    gap = sub(t.exponent, finite(op("stop_grad", ir.read(peak, own))))
    top = op("exp", gap if t.weight is None else bounded(gap, t.weight))
    total = _like(node, "sum", top if t.weight is None else mul(t.weight, top))
    here = op("stop_grad", ir.read(peak, s.places))
    return Shifted(here, ir.read(total, s.places), (), (s,), t.weight is not None)


def _like(node: ir.Comp | ir.Scatter, reduce: str, body: ir.Scalar) -> ir.Tensor:
    """The same reduction of another body."""
    if isinstance(node, ir.Comp):
        return ir.comp(node.shape, body, reduce, node.reduced, span=node.span)
    kind = "+" if reduce == "sum" else reduce
    made = ir.Scatter(node.shape, node.ranges, node.places, kind, body, None, body.dtype, span=node.span)
    return ir.intern(made)


def _has_shift(exponent: ir.Scalar) -> bool:
    """Is it z - m with a shift m that these rules made?"""
    if isinstance(exponent, ir.Op) and exponent.name == "select":
        exponent = exponent.args[2]
    if not isinstance(exponent, ir.Op) or exponent.name != "-":
        return False
    shift = exponent.args[1]
    if not isinstance(shift, ir.Op) or shift.name != "select":
        return False
    test = shift.args[0]
    return isinstance(test, ir.Op) and test.name == "isfinite"


def is_shifted(exponent: ir.Scalar, node: ir.Comp | ir.Scatter) -> bool:
    """Is it z - max z, over what the node sums?"""
    if _has_shift(exponent):
        return True
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
