"""What is left of 1, and differences that cancel: sigmoids, hyperbolic tangents, error functions, exponentials."""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.algebra import div, is_one, mul, neg, number, sub
from dslc.ops.elementary import is_square
from dslc.stabilise.matching import constant, half, negative, one_of, op, see, seen, twice
from dslc.stabilise.softmax import two_exponents


def complement(s: ir.Scalar, through_names: bool = False) -> ir.Scalar | None:
    """1 - f(x) in closed form, for the functions of `one_minus`."""
    found = see(s) if through_names else s
    if not isinstance(found, ir.Op):
        return None
    match found.name:
        case "sigmoid":
            return op("sigmoid", negative(found.args[0]))
        case "erf":
            return op("erfc", found.args[0])
        case "erfc":
            return op("erf", found.args[0])
        case "exp":
            return neg(op("expm1", found.args[0]))
        case "tanh":
            return twice(op("sigmoid", negative(twice(found.args[0]))))
    if not is_square(found):
        return None
    root = seen(found.args[0], "tanh") if through_names else found.args[0]
    if not isinstance(root, ir.Op) or root.name != "tanh":
        return None
    x = twice(root.args[0])
    return mul(number(4.0), mul(op("sigmoid", x), op("sigmoid", negative(x))))


def one_minus(s: ir.Op) -> ir.Scalar | None:
    """1 - sigmoid(x) = sigmoid(-x); 1 - erf(x) = erfc(x); 1 - erfc(x) = erf(x); 1 - exp(x) = -expm1(x);
    1 - tanh(x) = 2 sigmoid(-2 x); 1 - tanh(x)^2 = 4 sigmoid(2 x) sigmoid(-2 x)"""
    a, b = s.args
    return complement(b) if is_one(a) else None


def one_plus(s: ir.Op) -> ir.Scalar | None:
    """1 + erf(x) = erfc(-x); 1 + tanh(x) = 2 sigmoid(2 x)"""
    other = one_of(s)
    if not isinstance(other, ir.Op):
        return None
    match other.name:
        case "erf":
            return op("erfc", negative(other.args[0]))
        case "tanh":
            return twice(op("sigmoid", twice(other.args[0])))
    return None


def exp_minus_one(s: ir.Op) -> ir.Scalar | None:
    """exp(x) - 1 = expm1(x)"""
    a, b = s.args
    if isinstance(a, ir.Op) and a.name == "exp" and is_one(b):
        return op("expm1", a.args[0])
    return None


def centred_sigmoid(s: ir.Op) -> ir.Scalar | None:
    """2 sigmoid(x) - 1 = tanh(x / 2)"""
    a, b = s.args
    if not is_one(b) or not isinstance(a, ir.Op) or a.name != "*":
        return None
    for p, q in (a.args, reversed(a.args)):
        if constant(p) == 2 and isinstance(q, ir.Op) and q.name == "sigmoid":
            return op("tanh", half(q.args[0]))
    return None


def hyperbolic_sine(s: ir.Op) -> ir.Scalar | None:
    """exp(x) - exp(-x) = 2 sinh(x)"""
    a, b = s.args
    if not (isinstance(a, ir.Op) and isinstance(b, ir.Op) and a.name == b.name == "exp"):
        return None
    x = a.args[0]
    return twice(op("sinh", x)) if negative(x) is b.args[0] or negative(b.args[0]) is x else None


def difference_of_exponentials(s: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar] | None:
    """x and y of exp(x) - exp(y), with 1 = exp(0), also as the rules above write it."""
    found = seen(s, "-", "expm1", "neg", "*")
    if found is None:
        return None
    none = ir.const(0.0, "float")
    match found.name:
        case "-":
            a, b = (seen(x, "exp") for x in found.args)
            return None if a is None or b is None else (a.args[0], b.args[0])
        case "expm1":
            return found.args[0], none
        case "neg":
            inner = seen(found.args[0], "expm1")
            if inner is None or (isinstance(inner.args[0], ir.Op) and inner.args[0].name == "select"):
                return None
            return none, inner.args[0]
    inner = seen(found.args[1], "sinh")
    if inner is None or constant(found.args[0]) != 2:
        return None
    return inner.args[0], negative(inner.args[0])


def hyperbolic_tangent(s: ir.Op) -> ir.Scalar | None:
    """(exp x - exp y) / (exp x + exp y) = tanh((x - y) / 2); sinh(x) / cosh(x) = tanh(x), and the inverse"""
    sine, cosine = (seen(x, "sinh", "cosh") for x in s.args)
    if sine is not None and cosine is not None and sine.name != cosine.name and sine.args[0] is cosine.args[0]:
        tangent = op("tanh", sine.args[0])
        return tangent if sine.name == "sinh" else div(ir.const(1.0, s.dtype), tangent)
    below = two_exponents(s.args[1])
    above = None if below is None else difference_of_exponentials(s.args[0])
    if below is None or above is None:
        return None
    for x, y in (below, below[::-1]):
        if _same(above[0], x) and _same(above[1], y):
            gap = x if constant(y) == 0 else negative(y) if constant(x) == 0 else sub(x, y)
            if isinstance(gap, ir.Op) and gap.name == "-" and negative(gap.args[0]) is gap.args[1]:
                return op("tanh", gap.args[0])
            return op("tanh", half(gap))
    return None


def _same(a: ir.Scalar, b: ir.Scalar) -> bool:
    return a is b or (constant(a) is not None and constant(a) == constant(b))


def product_of_exponentials(s: ir.Op) -> ir.Scalar | None:
    """exp(x) exp(y) = exp(x + y)"""
    for p, q in (s.args, reversed(s.args)):
        a = p.args[0] if isinstance(p, ir.Op) and p.name == "exp" else None
        if a is None or not isinstance(q, ir.Op):
            continue
        if q.name == "exp":
            return op("exp", ir.op("+", (a, q.args[0]), a.dtype))
        if q.name == "*":
            for x, y in (q.args, reversed(q.args)):
                if isinstance(x, ir.Op) and x.name == "exp":
                    return mul(op("exp", ir.op("+", (a, x.args[0]), a.dtype)), y)
    return None


def quotient_of_exponentials(s: ir.Op) -> ir.Scalar | None:
    """exp(x) / exp(y) = exp(x - y); a / exp(y) = a exp(-y), whose derivative does not divide by what overflows"""
    p, q = s.args
    if not isinstance(q, ir.Op) or q.name != "exp":
        return None
    if isinstance(p, ir.Op) and p.name == "exp":
        return op("exp", sub(p.args[0], q.args[0]))
    return mul(p, op("exp", negative(q.args[0])))
