"""What is left of 1, and differences that cancel: sigmoids, hyperbolic tangents, error functions, exponentials."""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.algebra import choose, div, is_one, mul, neg, number, sub
from dslc.ops.elementary import is_square
from dslc.stabilise.exponential_sums import exponent_of, op_bool, written
from dslc.stabilise.matching import constant, half, multiple, negative, op, see, seen, twice
from dslc.stabilise.softmax import two_exponents

#: beyond it, cosh(x) is exp(|x|) / 2 in all digits
STEEP = 20.0


def complement(s: ir.Scalar, through_names: bool = False) -> ir.Scalar | None:
    """1 - f(x) in closed form, for the functions of `one_minus`."""
    found = see(s) if through_names else s
    if not isinstance(found, ir.Op):
        return None
    exponent = exponent_of(found)
    if exponent is not None:
        return neg(op("expm1", exponent))
    match found.name:
        case "sigmoid":
            return op("sigmoid", negative(found.args[0]))
        case "erf":
            return op("erfc", found.args[0])
        case "erfc":
            return op("erf", found.args[0])
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
    1 - tanh(x) = 2 sigmoid(-2 x); 1 - tanh(x)^2 = 4 sigmoid(2 x) sigmoid(-2 x); c - c f(x) = c (1 - f(x))"""
    a, b = s.args
    factor, f = multiple(b)
    return _scaled(factor, complement(f)) if constant(a) == factor else None


def supplement(s: ir.Scalar, through_names: bool = False) -> ir.Scalar | None:
    """1 + f(x) in closed form, for the functions of `one_plus`."""
    found = see(s) if through_names else s
    match found:
        case ir.Op("erf"):
            return op("erfc", negative(found.args[0]))
        case ir.Op("tanh"):
            return twice(op("sigmoid", twice(found.args[0])))
    return None


def one_plus(s: ir.Op) -> ir.Scalar | None:
    """1 + erf(x) = erfc(-x); 1 + tanh(x) = 2 sigmoid(2 x); c + c f(x) = c (1 + f(x))"""
    for a, b in (s.args, reversed(s.args)):
        factor, f = multiple(b)
        if constant(a) == factor:
            return _scaled(factor, supplement(f))
    return None


def _scaled(factor: float, x: ir.Scalar | None) -> ir.Scalar | None:
    """c x, with numbers multiplied."""
    if x is None or factor == 1:
        return x
    more, y = multiple(x)
    return mul(ir.const(factor * more, y.dtype), y)


def half_of_twice(s: ir.Op) -> ir.Scalar | None:
    """(2 sigmoid(x)) / 2 = 0.5 (2 sigmoid(x)) = sigmoid(x), which is what becomes of (1 + tanh(x / 2)) / 2"""
    factor, x = multiple(s)
    inner = seen(x, "*") if factor == 0.5 else None
    if inner is None or constant(inner.args[0]) != 2:
        return None
    y = inner.args[1]
    return y if isinstance(y, ir.Op) and y.name == "sigmoid" else None


def exp_minus_one(s: ir.Op) -> ir.Scalar | None:
    """exp(x) - 1 = expm1(x)"""
    a, b = s.args
    exponent = exponent_of(a) if is_one(b) else None
    return None if exponent is None else op("expm1", exponent)


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
    x, y = (exponent_of(a) for a in s.args)
    return twice(op("sinh", x)) if x is not None and y is not None and _are_opposite(x, y) else None


def _are_opposite(x: ir.Scalar, y: ir.Scalar) -> bool:
    return negative(x) is y or negative(y) is x


def difference_of_exponentials(s: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar] | None:
    """x and y of exp(x) - exp(y), with 1 = exp(0), also as the rules above write it."""
    found = seen(s, "-", "expm1", "neg", "*")
    if found is None:
        return None
    none = ir.const(0.0, "float")
    match found.name:
        case "-":
            a, b = (written(x) for x in found.args)
            if a is None or b is None or a.weight is not None or b.weight is not None:
                return None
            return a.exponent, b.exponent
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
            if _are_opposite(x, y):
                return op("tanh", x)
            return op("tanh", half(x if constant(y) == 0 else negative(y) if constant(x) == 0 else sub(x, y)))
    return None


def tangent_by_product(s: ir.Op) -> ir.Scalar | None:
    """sinh(x) (1 / cosh(x)) = tanh(x)"""
    for a, b in (s.args, reversed(s.args)):
        sine = seen(a, "sinh")
        if sine is not None and secant_of(b) is sine.args[0]:
            return op("tanh", sine.args[0])
    return None


def hyperbolic_secant(s: ir.Op) -> ir.Scalar | None:
    """a / cosh(x)^n = a (2 exp(-|x|))^n far from 0, whose derivative does not divide by what overflows;
    a / (exp x + exp(-x)) = (a / 2) / cosh(x)"""
    if s.name != "/":
        n = constant(s.args[1])
        return None if n is None or n >= 0 else _secant(s.args[0], -n)
    top, bottom = s.args
    power = seen(bottom, "^")
    n = 1.0 if power is None else constant(power.args[1])
    found = None if n is None or n <= 0 else _secant(bottom if power is None else power.args[0], n)
    if found is not None:
        return mul(top, found)
    pair = two_exponents(bottom)
    if pair is None or not _are_opposite(*pair):
        return None
    return mul(mul(number(0.5), top), ir.op("/", (number(1.0), op("cosh", pair[0])), s.dtype))


def _secant(s: ir.Scalar, n: float) -> ir.Scalar | None:
    """cosh(x)^-n"""
    cosine = seen(s, "cosh")
    if cosine is None or is_bounded(cosine):
        return None
    x = cosine.args[0]
    size = choose(op_bool(">=", x, ir.const(0.0, x.dtype)), x, negative(x))
    far = op_bool(">", size, ir.const(STEEP, x.dtype))
    near = div(number(1.0), op("cosh", choose(far, ir.const(STEEP, x.dtype), x)))
    value = choose(far, twice(op("exp", negative(size))), near)
    return value if n == 1 else ir.op("^", (value, number(n)), value.dtype)


def secant_of(s: ir.Scalar) -> ir.Scalar | None:
    """x of 1 / cosh(x) as the rule above writes it."""
    match seen(s, "select"):
        case ir.Op("select", (_, _, ir.Op("/", (_, ir.Op("cosh", (ir.Op("select", (_, _, x)),)))))):
            return x
    return None


def is_bounded(s: ir.Op | None) -> bool:
    """f(x if c else number): what rules make of f(x) where that is safe."""
    if s is None or not isinstance(s.args[0], ir.Op) or s.args[0].name != "select":
        return False
    return any(isinstance(x, ir.Const) for x in s.args[0].args[1:])


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
