"""Derivatives of scalar operations: one rule each, from the adjoint of the result to those of the arguments.

Kinks follow the table in docs/language.md: relu'(0) = abs'(0) = sign' = 0, ties of max and min split evenly.
A branch of a select that is not taken gets exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dslc.check.values import is_float, promote
from dslc.ir import nodes as ir
from dslc.ir.rewrite import zero

Adjoints = tuple[ir.Scalar | None, ...]


def is_zero(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == 0


def is_one(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == 1 and not isinstance(s.value, bool)


def number(x: float) -> ir.Const:
    return ir.const(float(x), "float")


def add(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    if is_zero(a):
        return b
    return a if is_zero(b) else ir.op("+", (a, b), _join(a, b))


def sub(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    return a if is_zero(b) else ir.op("-", (a, b), _join(a, b))


def mul(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """a b. It sinks into a select with a branch 0, so that what is not taken stays 0 whatever b is."""
    if is_zero(a) or is_one(b):
        return a
    if is_zero(b) or is_one(a):
        return b
    return _sink(a, lambda x: mul(x, b)) or ir.op("*", (a, b), _join(a, b))


def div(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """a / b, sunk like a product."""
    if is_zero(a) or is_one(b):
        return a
    return _sink(a, lambda x: div(x, b)) or ir.op("/", (a, b), _join(a, b))


def neg(a: ir.Scalar) -> ir.Scalar:
    return a if is_zero(a) else _sink(a, neg) or ir.op("neg", (a,), a.dtype)


def _sink(a: ir.Scalar, f: Callable[[ir.Scalar], ir.Scalar]) -> ir.Scalar | None:
    """`f(x) if c else 0` for `x if c else 0`, and the other way round; None for all else."""
    if not isinstance(a, ir.Op) or a.name != "select":
        return None
    condition, x, y = a.args
    if is_zero(y):
        return choose(condition, f(x), y)
    return choose(condition, x, f(y)) if is_zero(x) else None


def choose(condition: ir.Scalar, a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    return a if a is b else ir.op("select", (condition, a, b), _join(a, b))


def call(name: str, *args: ir.Scalar) -> ir.Scalar:
    return ir.op(name, args, args[0].dtype if args[0].dtype not in ("i32", "i64") else "float")


def cast(a: ir.Scalar, dtype: str) -> ir.Scalar:
    return a if a.dtype == dtype else _sink(a, lambda x: cast(x, dtype)) or ir.op("cast", (a,), dtype)


def compare(name: str, a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    return ir.op(name, (a, b), "bool")


def _join(a: ir.Scalar, b: ir.Scalar) -> str:
    if isinstance(a, ir.Const) and b.dtype not in ("i32", "i64"):
        return b.dtype
    if isinstance(b, ir.Const) and a.dtype not in ("i32", "i64"):
        return a.dtype
    return promote(a.dtype, b.dtype)


Rule = Callable[[ir.Op, ir.Scalar], Adjoints]
RULES: dict[str, Rule] = {}


def rule(name: str) -> Callable[[Rule], Rule]:
    def add_rule(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return add_rule


def _simple(name: str, derivative: Callable[[ir.Scalar, ir.Scalar], ir.Scalar]) -> None:
    """f(x) with f'(x) given from x and the result y."""
    RULES[name] = lambda y, a: (mul(a, derivative(y.args[0], y)),)


RULES["+"] = lambda y, a: (a, a)
RULES["-"] = lambda y, a: (a, neg(a))
RULES["neg"] = lambda y, a: (neg(a),)
RULES["*"] = lambda y, a: (mul(a, y.args[1]), mul(a, y.args[0]))
RULES["/"] = lambda y, a: (div(a, y.args[1]), neg(div(mul(a, y), y.args[1])))
RULES["select"] = lambda y, a: (
    None,
    choose(y.args[0], a, zero(a.dtype)),
    choose(y.args[0], zero(a.dtype), a),
)
RULES["cast"] = lambda y, a: (cast(a, y.args[0].dtype) if is_float(y.args[0].dtype) else None,)
RULES["stop_grad"] = lambda y, a: (None,)


@rule("^")
def _power(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d x^n = n x^(n-1) dx;  d b^y = b^y log(b) dy, taken as 0 where b is not positive."""
    base, exponent = y.args
    if isinstance(exponent, ir.Const):
        n = exponent.value
        if n == 0:
            return zero(a.dtype), None
        if n == 1:
            return a, None
        if n == 2:
            return mul(a, mul(number(2.0), base)), None
        if 0 < n < 1 and _is_sum_of_squares(base):
            a = choose(compare(">", y, number(0.0)), a, zero(a.dtype))
        lower = ir.op("^", (base, ir.const(n - 1, exponent.dtype)), y.dtype)
        return mul(a, mul(number(float(n)), lower)), None
    one = ir.const(1, exponent.dtype) if exponent.dtype in ("i32", "i64") else number(1.0)
    power = ir.op("^", (base, ir.op("-", (exponent, one), exponent.dtype)), y.dtype)
    constant = compare("==", exponent, zero(exponent.dtype))
    by_base = mul(choose(constant, zero(a.dtype), a), mul(exponent, power))
    positive = compare(">", base, number(0.0))
    safe = choose(positive, base, number(1.0))
    by_exponent = mul(choose(positive, a, zero(a.dtype)), mul(y, call("log", safe)))
    return by_base, by_exponent


RULES["pow"] = _power

_simple("exp", lambda x, y: y)
_simple("exp2", lambda x, y: mul(y, number(math.log(2))))
_simple("expm1", lambda x, y: add(y, number(1.0)))
_simple("log", lambda x, y: div(number(1.0), x))
_simple("log2", lambda x, y: div(number(1 / math.log(2)), x))
_simple("log10", lambda x, y: div(number(1 / math.log(10)), x))
_simple("log1p", lambda x, y: div(number(1.0), add(number(1.0), x)))
_simple("rsqrt", lambda x, y: mul(number(-0.5), div(y, x)))
_simple("abs", lambda x, y: call("sign", x))
_simple("sin", lambda x, y: call("cos", x))
_simple("cos", lambda x, y: neg(call("sin", x)))
_simple("tan", lambda x, y: add(number(1.0), mul(y, y)))
_simple("asin", lambda x, y: call("rsqrt", sub(number(1.0), mul(x, x))))
_simple("acos", lambda x, y: neg(call("rsqrt", sub(number(1.0), mul(x, x)))))
_simple("atan", lambda x, y: div(number(1.0), add(number(1.0), mul(x, x))))
_simple("sinh", lambda x, y: call("cosh", x))
_simple("cosh", lambda x, y: call("sinh", x))
_simple("tanh", lambda x, y: sub(number(1.0), mul(y, y)))
_simple("asinh", lambda x, y: call("rsqrt", add(number(1.0), mul(x, x))))
_simple("acosh", lambda x, y: call("rsqrt", sub(mul(x, x), number(1.0))))
_simple("atanh", lambda x, y: div(number(1.0), sub(number(1.0), mul(x, x))))
_simple("sigmoid", lambda x, y: mul(y, sub(number(1.0), y)))
_simple("softplus", lambda x, y: call("sigmoid", x))
_simple("erf", lambda x, y: mul(number(2 / math.sqrt(math.pi)), call("exp", neg(mul(x, x)))))
_simple("erfc", lambda x, y: mul(number(-2 / math.sqrt(math.pi)), call("exp", neg(mul(x, x)))))
_simple("erfinv", lambda x, y: mul(number(math.sqrt(math.pi) / 2), call("exp", mul(y, y))))
_simple("lgamma", lambda x, y: call("digamma", x))
_simple("digamma", lambda x, y: call("trigamma", x))
RULES["relu"] = lambda y, a: (choose(compare(">", y.args[0], number(0.0)), a, zero(a.dtype)),)


@rule("sqrt")
def _sqrt(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d sqrt(x) = dx / (2 sqrt(x)); for the root of a sum of squares (a norm) 0 at 0."""
    if _is_sum_of_squares(y.args[0]):
        a = choose(compare(">", y, number(0.0)), a, zero(a.dtype))
    return (div(a, mul(number(2.0), y)),)


def _is_sum_of_squares(s: ir.Scalar) -> bool:
    if isinstance(s, ir.Op) and s.name == "/" and isinstance(s.args[1], ir.Const | ir.SizeOf):
        return _is_sum_of_squares(s.args[0])
    if isinstance(s, ir.Op) and s.name == "+":
        return all(_is_sum_of_squares(x) for x in s.args)
    if isinstance(s, ir.Op) and s.name in ("cast", "stop_grad"):
        return _is_sum_of_squares(s.args[0])
    if isinstance(s, ir.Read) and isinstance(s.tensor, ir.Comp):
        return s.tensor.op in (None, "sum") and _is_sum_of_squares(s.tensor.body)
    return _is_square(s)


def _is_square(s: ir.Scalar) -> bool:
    if not isinstance(s, ir.Op):
        return False
    if s.name == "*":
        return s.args[0] is s.args[1]
    return s.name == "^" and isinstance(s.args[1], ir.Const) and s.args[1].value == 2


def _tie(name: str) -> Rule:
    """The winner takes the adjoint; a tie splits it evenly."""

    def pairwise(y: ir.Op, a: ir.Scalar) -> Adjoints:
        p, q = y.args
        half = mul(a, number(0.5))
        first = choose(compare(name, p, q), a, choose(compare("==", p, q), half, zero(a.dtype)))
        second = choose(compare(name, q, p), a, choose(compare("==", p, q), half, zero(a.dtype)))
        return first, second

    return pairwise


RULES["max"] = _tie(">")
RULES["min"] = _tie("<")


@rule("clip")
def _clip(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """clip(x, low, high) = min(max(x, low), high)."""
    x, low, high = y.args
    inner = ir.op("max", (x, low), y.dtype)
    outer = ir.op("min", (inner, high), y.dtype)
    by_inner, by_high = RULES["min"](outer, a)
    assert by_inner is not None
    by_x, by_low = RULES["max"](inner, by_inner)
    return by_x, by_low, by_high


@rule("atan2")
def _atan2(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d atan2(v, u) = (u dv - v du) / (u^2 + v^2)."""
    v, u = y.args
    square = add(mul(u, u), mul(v, v))
    return mul(a, div(u, square)), neg(mul(a, div(v, square)))


@rule("hypot")
def _hypot(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d hypot(p, q) = (p dp + q dq) / hypot(p, q); 0 at 0."""
    a = choose(compare(">", y, number(0.0)), a, zero(a.dtype))
    p, q = y.args
    return mul(a, div(p, y)), mul(a, div(q, y))


#: operations whose results do not vary with their arguments, or are no floats
FLAT = frozenset(
    {
        "sign", "floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite", "<", "<=", ">", ">=", "==", "!=",
        "and", "or", "not", "//", "%",
    }
)  # fmt: skip
