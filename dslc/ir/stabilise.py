"""Formulas as people write them, computed as people would compute them: each rule with its line of mathematics.

Applied before differentiation, so that gradients are made from the stable forms. No rule changes a value where the
plain formula neither overflows nor cancels, and none changes a derivative at a kink.
"""

from __future__ import annotations

from collections.abc import Callable

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Substitute, identity, keep

Rule = Callable[[ir.Op], ir.Scalar | None]


def stabilise(outputs: dict[str, ir.Tensor]) -> dict[str, ir.Tensor]:
    """The same outputs in stable form."""
    rewriter = _Stabiliser()
    return {name: rewriter.tensor(node) for name, node in outputs.items()}


class _Stabiliser(Substitute):
    def __init__(self) -> None:
        super().__init__({}, everywhere=True)

    def _one(self, node: ir.Node) -> ir.Node:
        new = super()._one(node)
        if isinstance(new, ir.Comp):
            body = rewritten(new.body)
            if body is not new.body:
                return ir.comp(new.shape, body, new.op, new.reduced, new.name, new.span, new.dtype)
        elif isinstance(new, ir.Scatter):
            body = rewritten(new.body)
            if body is not new.body:
                made = ir.Scatter(
                    new.shape, new.ranges, new.places, new.op, body, new.base, new.dtype, new.name, new.span
                )
                return ir.intern(made)
        return new


def rewritten(root: ir.Scalar) -> ir.Scalar:
    """A body with all rules applied, operands first."""
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(root):
        new = ir.rebuild(s, lambda x: done[x])
        while isinstance(new, ir.Op):
            found = next((r for rule in RULES.get(new.name, ()) if (r := rule(new)) is not None), None)
            if found is None:
                break
            new = found
        done[s] = new
    return done[root]


# ---- matching ---------------------------------------------------------------------------------------


def _is(s: ir.Scalar, name: str) -> bool:
    return isinstance(s, ir.Op) and s.name == name


def _one(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == 1 and not isinstance(s.value, bool)


def _exponent(s: ir.Scalar) -> ir.Scalar | None:
    return s.args[0] if isinstance(s, ir.Op) and s.name == "exp" else None


def _op(name: str, *args: ir.Scalar) -> ir.Scalar:
    return ir.op(name, args, args[0].dtype)


def _negative(x: ir.Scalar) -> ir.Scalar:
    return x.args[0] if isinstance(x, ir.Op) and x.name == "neg" else _op("neg", x)


class _Partition:
    """S = sum over r of exp(z) as exp(m) * T with m = max z and T = sum of exp(z - m)."""

    def __init__(self, read: ir.Read, node: ir.Comp, exponent: ir.Scalar):
        kept, count = len(node.shape), len(node.shape) + len(node.reduced)
        peak = ir.comp(node.shape, exponent, "max", node.reduced)
        here = ir.read(peak, tuple(ir.plain(i) for i in range(kept)))
        safe = _finite(here)
        shifted = _op("exp", ir.op("-", (exponent, safe), exponent.dtype))
        total = ir.comp(node.shape, shifted, "sum", node.reduced)
        self.peak = _finite(ir.read(peak, read.places))
        self.total = ir.read(total, read.places)
        self.node = node
        self.exponent = exponent
        self.places = read.places
        self.count = count

    def here(self, numbers: tuple[int, ...]) -> ir.Scalar:
        """The exponent at given variables of another comprehension."""
        return Change({n: keep(numbers[n]) for n in range(self.count)}).scalar(self.exponent)


def _finite(m: ir.Scalar) -> ir.Scalar:
    """The shift takes no part in the derivative; a row that is all -inf is not shifted."""
    value = ir.op("stop_grad", (m,), m.dtype)
    return ir.op("select", (ir.op("isfinite", (value,), "bool"), value, ir.const(0.0, m.dtype)), m.dtype)


def _is_shifted(s: ir.Scalar) -> bool:
    """Has the maximum been taken off already?"""
    if not isinstance(s, ir.Op) or s.name != "-":
        return False
    shift = s.args[1]
    return isinstance(shift, ir.Op) and shift.name == "select" and _is(shift.args[0], "isfinite")


def _partition(s: ir.Scalar) -> _Partition | None:
    if isinstance(s, ir.Read) and s.outside is None and isinstance(s.tensor, ir.Comp) and s.tensor.op == "sum":
        exponent = _exponent(s.tensor.body)
        if exponent is not None and not _is_shifted(exponent):
            return _Partition(s, s.tensor, exponent)
    return None


# ---- rules --------------------------------------------------------------------------------------------


def log_sum_exp(s: ir.Op) -> ir.Scalar | None:
    """log(sum exp z) = m + log(sum exp(z - m)), m = max z"""
    parts = _partition(s.args[0])
    if parts is None:
        return None
    return ir.op("+", (parts.peak, _op("log", parts.total)), s.dtype)


def softmax(s: ir.Op) -> ir.Scalar | None:
    """exp(z) / sum exp(z) = exp(z - m) / sum exp(z - m)"""
    exponent = _exponent(s.args[0])
    parts = _partition(s.args[1])
    if exponent is None or parts is None:
        return None
    return ir.op("/", (_op("exp", ir.op("-", (exponent, parts.peak), exponent.dtype)), parts.total), s.dtype)


def weighted_softmax(s: ir.Op) -> ir.Scalar | None:
    """sum(exp(z) v) / sum exp(z) = sum(exp(z - m) v) / sum exp(z - m)"""
    top, parts = s.args[0], _partition(s.args[1])
    if parts is None or not isinstance(top, ir.Read) or top.outside is not None or not isinstance(top.tensor, ir.Comp):
        return None
    node = top.tensor
    if node.op != "sum" or not _is(node.body, "*"):
        return None
    factors = list(node.body.args) if isinstance(node.body, ir.Op) else []
    places = [i for i, f in enumerate(factors) if _exponent(f) is not None]
    if len(places) != 1 or len(parts.node.reduced) != len(node.reduced):
        return None
    exponent = _exponent(factors[places[0]])
    assert exponent is not None
    # the variables of the numerator that the denominator's places name, then its reduced ones
    outer: list[int] = []
    for place in parts.places:
        where = [i for i, x in enumerate(top.places) if x is place]
        if len(where) != 1:
            return None
        outer.append(where[0])
    kept = len(node.shape)
    numbers = (*outer, *(kept + k for k in range(len(node.reduced))))
    if parts.here(numbers) is not exponent:
        return None
    peak_places = tuple(ir.plain(i) for i in outer)
    peak = Change(identity(64)).scalar(parts.peak)
    assert isinstance(peak, ir.Op)
    shift = _at(peak, peak_places)
    factors[places[0]] = _op("exp", ir.op("-", (exponent, shift), exponent.dtype))
    body = ir.op("*", tuple(factors), node.body.dtype)
    made = ir.comp(node.shape, body, "sum", node.reduced, node.name, node.span)
    return ir.op("/", (ir.read(made, top.places), parts.total), s.dtype)


def _at(s: ir.Scalar, places: tuple[ir.Place, ...]) -> ir.Scalar:
    """The same expression with its reads at other places."""
    if isinstance(s, ir.Read):
        return ir.read(s.tensor, places)
    return ir.rebuild(s, lambda x: _at(x, places))


def log_one_plus(s: ir.Op) -> ir.Scalar | None:
    """log(1 + exp x) = softplus(x); log(1 + x) = log1p(x)"""
    inner = s.args[0]
    if not isinstance(inner, ir.Op) or inner.name not in ("+", "-"):
        return None
    a, b = inner.args
    if inner.name == "-":
        return _op("log1p", _negative(b)) if _one(a) else None
    other = b if _one(a) else a if _one(b) else None
    if other is None:
        return None
    exponent = _exponent(other)
    return _op("softplus", exponent) if exponent is not None else _op("log1p", other)


def softplus(s: ir.Op) -> ir.Scalar | None:
    """log1p(exp x) = softplus(x)"""
    exponent = _exponent(s.args[0])
    return None if exponent is None else _op("softplus", exponent)


def log_sigmoid(s: ir.Op) -> ir.Scalar | None:
    """log(sigmoid(x)) = -softplus(-x)"""
    inner = s.args[0]
    if isinstance(inner, ir.Op) and inner.name == "sigmoid":
        return _op("neg", _op("softplus", _negative(inner.args[0])))
    return None


def log_exp(s: ir.Op) -> ir.Scalar | None:
    """log(exp x) = x"""
    return _exponent(s.args[0])


def log_quotient(s: ir.Op) -> ir.Scalar | None:
    """log(exp(z) / S) = z - log S"""
    inner = s.args[0]
    if isinstance(inner, ir.Op) and inner.name == "/":
        exponent = _exponent(inner.args[0])
        if exponent is not None:
            return ir.op("-", (exponent, _op("log", inner.args[1])), s.dtype)
    return None


def complement_of_sigmoid(s: ir.Op) -> ir.Scalar | None:
    """1 - sigmoid(x) = sigmoid(-x)"""
    a, b = s.args
    if _one(a) and isinstance(b, ir.Op) and b.name == "sigmoid":
        return _op("sigmoid", _negative(b.args[0]))
    return None


def exp_minus_one(s: ir.Op) -> ir.Scalar | None:
    """exp(x) - 1 = expm1(x)"""
    a, b = s.args
    exponent = _exponent(a)
    return _op("expm1", exponent) if exponent is not None and _one(b) else None


def logistic(s: ir.Op) -> ir.Scalar | None:
    """1 / (1 + exp(-x)) = sigmoid(x); exp(x) / (1 + exp(x)) = sigmoid(x)"""
    a, b = s.args
    if not isinstance(b, ir.Op) or b.name != "+":
        return None
    other = b.args[1] if _one(b.args[0]) else b.args[0] if _one(b.args[1]) else None
    exponent = None if other is None else _exponent(other)
    if exponent is None:
        return None
    if _one(a):
        return _op("sigmoid", _negative(exponent))
    return _op("sigmoid", exponent) if a is other else None


#: operation -> the rules that look at it, tried in order
RULES: dict[str, tuple[Rule, ...]] = {
    "log": (log_sum_exp, log_quotient, log_exp, log_sigmoid, log_one_plus),
    "log1p": (softplus,),
    "/": (softmax, weighted_softmax, logistic),
    "-": (complement_of_sigmoid, exp_minus_one),
}
