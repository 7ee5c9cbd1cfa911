"""Rules for sums of exponentials: their logarithms, the shares of their terms, and two terms as a sigmoid."""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.algebra import choose, div, mul, sub
from dslc.stabilise.exponential_sums import (
    LOWEST,
    Shifted,
    Term,
    addends,
    exponential_sum,
    filled,
    finite,
    joined,
    op_bool,
    room,
    term,
    written,
)
from dslc.stabilise.matching import axes_at, constant, negative, nonnegative, op, renumbered, seen
from dslc.stabilise.membership import is_at


def log_sum_exp(s: ir.Op) -> ir.Scalar | None:
    """log(sum of exp z) = m + log(sum of exp(z - m)), m = max z; log(1 + exp x) = softplus(x)"""
    found = exponential_sum(s.args[0])
    if found is None:
        return None
    if not found.sums and len(found.terms) == 2 and not found.weighted:
        a, b = found.terms
        return _log_of_two(a.exponent, b.exponent)
    if any(_is_one(t) for t in found.terms):
        return _log_of_one_and_more(s.args[0], 1)
    total = found.total if found.weighted else filled(found.total)
    return ir.op("+", (found.peak, op("log", total)), s.dtype)


def _is_one(t: Term) -> bool:
    return t.weight is None and constant(t.exponent) == 0


def softplus(s: ir.Op) -> ir.Scalar | None:
    """log1p(exp x) = softplus(x);
    log1p(S) = m + log(exp(-m) + S exp(-m)) for a sum of exponentials S, m = max z where that is large, else 0"""
    return _log_of_one_and_more(s.args[0], 0)


def _log_of_one_and_more(s: ir.Scalar, ones: int) -> ir.Scalar | None:
    """The logarithm of 1 and of all that is added up here, which may have the 1 in it."""
    above = room(s.dtype)
    parts = addends(s, above=above)
    if parts is None:
        return None
    terms, sums = parts
    for t in [t for t in terms if _is_one(t)][:ones]:
        terms.remove(t)
    if len(terms) == 1 and not sums:
        t = terms[0]
        if t.weight is None:
            return op("softplus", t.exponent)
        if nonnegative(negative(t.exponent)):
            return None
    found = joined(terms, sums, above)
    shift = found.shift
    far = op_bool(">", shift, ir.const(0.0, shift.dtype))
    log = op("log", ir.op("+", (op("exp", negative(shift)), found.total), found.total.dtype))
    return choose(far, ir.op("+", (shift, log), log.dtype), op("log1p", found.total))


def _log_of_two(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """log(exp a + exp b) = h + softplus(l - h), h the larger one (smooth where they are equal: it is symmetric)"""
    for x, y in ((a, b), (b, a)):
        if constant(x) == 0:
            return op("softplus", y)
    first = op_bool(">=", a, b)
    high, low = choose(first, a, b), choose(first, b, a)
    same = ir.op("and", (op_bool("isinf", high), op_bool("==", high, low)), "bool")
    gap = choose(same, ir.const(0.0, high.dtype), sub(low, high))
    none = ir.const(LOWEST, high.dtype)
    return choose(op_bool("==", high, none), none, ir.op("+", (high, op("softplus", gap)), gap.dtype))


def softmax(s: ir.Op) -> ir.Scalar | None:
    """w exp(z) / sum of exp z = w exp(z - m) / sum of exp(z - m)"""
    top, bottom = s.args
    below = exponential_sum(bottom)
    if below is None:
        return None
    t = term(top)
    if t is not None:
        return below.share(t.weight, t.exponent)
    mean = _weighted_mean(top, below)
    if mean is not None:
        return mean
    above = exponential_sum(top)
    if above is None:
        return None
    return div(mul(above.total, op("exp", sub(above.peak, below.shift))), below.total)


def _weighted_mean(top: ir.Scalar, below: Shifted) -> ir.Scalar | None:
    """sum of (v exp z) / sum of exp z = sum of (v softmax z), the weights as a tensor of their own"""
    if not isinstance(top, ir.Read) or top.outside is not None or len(below.sums) != 1 or below.terms or below.weighted:
        return None
    node, other = top.tensor, below.sums[0]
    if not isinstance(node, ir.Comp) or node.op != "sum" or not isinstance(other.tensor, ir.Comp):
        return None
    t, own = term(node.body), term(other.tensor.body)
    if t is None or t.weight is None or own is None or len(node.reduced) != len(other.tensor.reduced):
        return None
    outer = axes_at(other.places, top.places)
    summed = [len(node.shape) + k for k in range(len(node.reduced))]
    if outer is None or renumbered(own.exponent, (*outer, *summed)) is not t.exponent:
        return None
    peak, total = below.peak, below.total
    assert isinstance(peak, ir.Op) and isinstance(peak.args[0], ir.Read) and isinstance(total, ir.Read)
    axes = tuple(ir.plain(i) for i in range(len(outer)))
    shift = finite(op("stop_grad", ir.read(peak.args[0].tensor, axes)))
    share = div(op("exp", sub(own.exponent, shift)), filled(ir.read(total.tensor, axes)))
    weights = ir.comp((*other.tensor.shape, *node.reduced), share, name="softmax", span=node.span)
    read = ir.read(weights, tuple(ir.plain(v) for v in (*outer, *summed)))
    made = ir.comp(node.shape, mul(read, t.weight), "sum", node.reduced, node.name, node.span)
    return ir.read(made, top.places)


def softmax_by_product(s: ir.Op) -> ir.Scalar | None:
    """exp(z) (1 / S) = exp(z) S^-1 = exp(z) / S"""
    for x, y in (s.args, reversed(s.args)):
        inverse = seen(y, "/", "^")
        if inverse is None or term(x) is None:
            continue
        a, b = inverse.args
        if inverse.name == "/" and constant(a) is not None and exponential_sum(b) is not None:
            return mul(a, ir.op("/", (x, b), s.dtype))
        if inverse.name == "^" and constant(b) == -1 and exponential_sum(a) is not None:
            return ir.op("/", (x, a), s.dtype)
    return None


def softmax_over_product(s: ir.Op) -> ir.Scalar | None:
    """exp(z) / (c S) = (exp(z) / S) / c"""
    below = seen(s.args[1], "*")
    if below is None or term(s.args[0]) is None:
        return None
    for x, y in (below.args, reversed(below.args)):
        if exponential_sum(x) is not None:
            return ir.op("/", (ir.op("/", (s.args[0], x), s.dtype), y), s.dtype)
    return None


def log_sum_parts(s: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar] | None:
    """m and T of a logarithm m + log T that log_sum_exp has made."""
    plus = seen(s, "+")
    if plus is None:
        return None
    peak, log = plus.args
    if not isinstance(peak, ir.Op) or peak.name != "stop_grad" or not isinstance(log, ir.Op) or log.name != "log":
        return None
    total = log.args[0]
    is_filled = isinstance(total, ir.Op) and total.name == "select" and filled(total.args[2]) is total
    return (peak, total) if is_filled else None


def _is_term(z: ir.Scalar, peak: ir.Scalar) -> bool:
    """Is z among the values of which this is the maximum?"""
    read = peak.args[0] if isinstance(peak, ir.Op) else peak
    if not isinstance(read, ir.Read) or not isinstance(read.tensor, ir.Comp | ir.Scatter):
        return False
    return is_at(read.tensor.body, z, read, read.tensor)


def minus_log_sum(s: ir.Op) -> ir.Scalar | None:
    """z - (m + log T) = (z - m) - log T, and the other way round"""
    a, b = s.args
    for z, total, sign in ((a, b, 1), (b, a, -1)):
        parts = log_sum_parts(total)
        if parts is not None and _is_term(z, parts[0]):
            gap, log = sub(z, finite(parts[0])), op("log", parts[1])
            return sub(gap, log) if sign == 1 else sub(log, gap)
    return None


def exp_of_log_share(s: ir.Op) -> ir.Scalar | None:
    """exp((z - m) - log T) = exp(z - m) / T"""
    gap = seen(s.args[0], "-")
    if gap is None:
        return None
    log = seen(gap.args[1], "log")
    if log is None:
        return None
    total = log.args[0]
    if isinstance(total, ir.Op) and total.name == "select" and filled(total.args[2]) is total:
        return div(op("exp", gap.args[0]), total)
    return None


def logistic(s: ir.Op) -> ir.Scalar | None:
    """a / (1 + exp x)^n = a sigmoid(-x)^n; exp(x) / (exp x + exp y) = sigmoid(x - y)"""
    top, bottom = s.args
    power = seen(bottom, "^")
    if power is not None and isinstance(power.args[1], ir.Const) and power.args[1].value > 0:
        n = power.args[1]
        share = inverse_of_logistic_sum(power.args[0], n)
        return None if share is None else mul(top, share)
    pair = two_exponents(bottom)
    if pair is None:
        return None
    x, y = pair
    t = term(top)
    for p, q in ((x, y), (y, x)):
        if t is not None and t.exponent is p:
            share = op("sigmoid", _gap(p, q))
            return share if t.weight is None else mul(t.weight, share)
    for p, q in ((x, y), (y, x)):
        if constant(p) == 0:
            return mul(top, op("sigmoid", _gap(p, q)))
    return None


def two_exponents(s: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar] | None:
    """x and y of exp(x) + exp(y), with 1 = exp(0)."""
    plus = seen(s, "+")
    if plus is None:
        return None
    terms = [written(x) for x in plus.args]
    found = [t.exponent for t in terms if t is not None and t.weight is None]
    if len(found) != 2 or all(constant(x) is not None for x in found):
        return None
    return found[0], found[1]


def _gap(p: ir.Scalar, q: ir.Scalar) -> ir.Scalar:
    return negative(q) if constant(p) == 0 else sub(p, q)


def inverse_of_logistic_sum(s: ir.Scalar, n: ir.Const) -> ir.Scalar | None:
    """(1 + exp x)^-n as sigmoid(-x)^n"""
    pair = two_exponents(s)
    for p, q in () if pair is None else (pair, pair[::-1]):
        if constant(p) == 0:
            share = op("sigmoid", negative(q))
            return share if n.value == 1 else ir.op("^", (share, n), share.dtype)
    return None


def logistic_power(s: ir.Op) -> ir.Scalar | None:
    """(1 + exp x)^-n = sigmoid(-x)^n"""
    n = s.args[1]
    if not isinstance(n, ir.Const) or not n.value < 0:
        return None
    return inverse_of_logistic_sum(s.args[0], ir.const(-n.value, n.dtype))
