"""Records: exponentials, logarithms, roots, powers, circular and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable

from dslc.ir import algebra as d
from dslc.ir import nodes as ir
from dslc.ir.rewrite import zero
from dslc.ops.record import POSITIVE, REAL, UNIT, Adjoints, ScalarOp, function, rule

INF, NAN = math.inf, math.nan

ANY = (-2.3, -0.7, 0.4, 1.9)
OTHER = (0.8, -1.6, 2.7, -0.3)
ABOVE_0 = (0.2, 0.9, 1.6, 4.2)
WITHIN_1 = (-0.9, -0.3, 0.2, 0.8)
ABOVE_1 = (1.2, 1.9, 3.1, 7.0)


def _sqrt(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d sqrt(x) = dx / (2 sqrt(x)); for the root of a sum of squares (a norm) 0 at 0."""
    if is_sum_of_squares(y.args[0]):
        a = d.where(d.compare(">", y, d.number(0.0)), a)
    return (d.div(a, d.mul(d.number(2.0), y)),)


def is_sum_of_squares(s: ir.Scalar) -> bool:
    """Is it a sum of squares, as written, over indices or both?"""
    stack = [s]
    while stack:
        s = stack.pop()
        if isinstance(s, ir.Op) and s.name == "/" and isinstance(s.args[1], ir.Const | ir.SizeOf):
            stack.append(s.args[0])
        elif isinstance(s, ir.Op) and s.name == "+":
            stack += s.args
        elif isinstance(s, ir.Op) and s.name in ("cast", "stop_grad"):
            stack.append(s.args[0])
        elif isinstance(s, ir.Read) and isinstance(s.tensor, ir.Comp) and s.tensor.op in (None, "sum"):
            stack.append(s.tensor.body)
        elif not is_square(s):
            return False
    return True


def is_square(s: ir.Scalar) -> bool:
    if not isinstance(s, ir.Op):
        return False
    if s.name == "*":
        return s.args[0] is s.args[1]
    return s.name == "^" and isinstance(s.args[1], ir.Const) and s.args[1].value == 2


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
            return d.mul(a, d.mul(d.number(2.0), base)), None
        if 0 < n < 1 and is_sum_of_squares(base):
            a = d.where(d.compare(">", y, d.number(0.0)), a)
        lower = ir.op("^", (base, ir.const(n - 1, exponent.dtype)), y.dtype)
        return d.mul(a, d.mul(d.number(float(n)), lower)), None
    one = ir.const(1, exponent.dtype) if exponent.dtype in ("i32", "i64") else d.number(1.0)
    power = ir.op("^", (base, ir.op("-", (exponent, one), exponent.dtype)), y.dtype)
    constant = d.compare("==", exponent, zero(exponent.dtype))
    by_base = d.mul(d.choose(constant, zero(a.dtype), a), d.mul(exponent, power))
    positive = d.compare(">", base, d.number(0.0))
    safe = d.choose(positive, base, d.number(1.0))
    by_exponent = d.mul(d.where(positive, a), d.mul(y, d.call("log", safe)))
    return by_base, by_exponent


def _power_record(name: str, in_language: bool) -> ScalarOp:
    return ScalarOp(
        name=name, arity=2, gives="float" if in_language else "same", meaning="x^y", domain=(REAL, REAL), range=REAL,
        derivative=_power, flat=False, tame=False, kinks="0 by y where x is not positive",
        numpy="np.power({0}, {1})" if in_language else "{0} ** {1}", plain="({0}) ** ({1})", triton="power({0}, {1})",
        c="power{f}({0}, {1})", oracle="torch.pow", samples=(ABOVE_0, OTHER),
        edges=(((0.0, 0.0), 1.0), ((0.0, 2.0), 0.0), ((0.0, -1.0), INF), ((-1.5, 0.5), NAN), ((INF, 2.0), INF),
               ((NAN, 2.0), NAN), ((NAN, 0.0), 1.0)),
        in_language=in_language, cost="costly", finite_for="none", value="np.power({0}, {1})",
    )  # fmt: skip


def _tanh(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d tanh(x) = (1 - y^2) dx, in a form that no rule for 1 - tanh(x)^2 takes away from the value y"""
    return (d.mul(a, d.add(d.number(1.0), d.mul(d.neg(y), y))),)


def _inverse_root(sign: float) -> Callable[[ir.Scalar, ir.Scalar], ir.Scalar]:
    """sign / sqrt(1 - x^2), with 1 - x^2 as (1 - x)(1 + x): both factors are exact near 1 and -1."""
    return lambda x, y: d.mul(d.number(sign), d.call("rsqrt", d.mul(d.sub(d.number(1.0), x), d.add(d.number(1.0), x))))


ELEMENTARY = (
    function("exp", "e^x", rule(lambda x, y: y), ANY, ((-INF, 0.0), (INF, INF), (1e4, INF), (NAN, NAN)),
             range=POSITIVE, cost="costly", slope_from_value=True),
    function("exp2", "2^x", rule(lambda x, y: d.mul(y, d.number(math.log(2)))), ANY,
             ((-INF, 0.0), (INF, INF), (NAN, NAN)), range=POSITIVE, plain="(2.0 ** ({0}))",
             cost="costly", slope_from_value=True),
    function("expm1", "e^x - 1, exact near 0", rule(lambda x, y: d.call("exp", x)), ANY,
             ((-INF, -1.0), (INF, INF), (NAN, NAN)), range=(-1.0, INF), triton="expm1({0})",
             cost="costly", slope_from_value=True),
    function("log", "natural logarithm", rule(lambda x, y: d.div(d.number(1.0), x)), ABOVE_0,
             ((0.0, -INF), (-1.0, NAN), (INF, INF), (NAN, NAN)), domain=POSITIVE,
             cost="costly", finite="positive", slope_from_value=True),
    function("log2", "logarithm to the base 2", rule(lambda x, y: d.div(d.number(1 / math.log(2)), x)), ABOVE_0,
             ((0.0, -INF), (-1.0, NAN), (INF, INF), (NAN, NAN)), domain=POSITIVE, cost="costly", slope_from_value=True),
    function("log10", "logarithm to the base 10", rule(lambda x, y: d.div(d.number(1 / math.log(10)), x)), ABOVE_0,
             ((0.0, -INF), (-1.0, NAN), (INF, INF), (NAN, NAN)), domain=POSITIVE,
             triton="(tl.log({0}) * 0.4342944819032518)", cost="costly", slope_from_value=True),
    function("log1p", "log(1 + x), exact near 0", rule(lambda x, y: d.div(d.number(1.0), d.add(d.number(1.0), x))),
             WITHIN_1, ((-1.0, -INF), (-2.0, NAN), (INF, INF), (NAN, NAN)), domain=(-1.0, INF), triton="log1p({0})",
             cost="costly", slope_from_value=True),
    function("sqrt", "square root", _sqrt, ABOVE_0, ((0.0, 0.0), (-1.0, NAN), (INF, INF), (NAN, NAN)),
             domain=POSITIVE, range=POSITIVE, kinks="of a norm, `sqrt(sum[k](x[k]^2))`, at 0: 0",
             cost="medium", finite="not negative", slope_from_value=True, keeps_sign=True),
    function("rsqrt", "1 / sqrt(x)", rule(lambda x, y: d.mul(d.number(-0.5), d.div(y, x))), ABOVE_0,
             ((0.0, INF), (-1.0, NAN), (INF, 0.0), (NAN, NAN)), domain=POSITIVE, range=POSITIVE,
             numpy="1 / np.sqrt({0})", plain="(1 / math.sqrt({0}))",
             cost="medium", finite="positive"),
    function("sin", "sine", rule(lambda x, y: d.call("cos", x)), ANY, ((INF, NAN), (-INF, NAN), (NAN, NAN)),
             range=UNIT, tame=True, cost="costly"),
    function("cos", "cosine", rule(lambda x, y: d.neg(d.call("sin", x))), ANY,
             ((INF, NAN), (-INF, NAN), (NAN, NAN)), range=UNIT, tame=True, cost="costly"),
    function("tan", "tangent", rule(lambda x, y: d.add(d.number(1.0), d.mul(y, y))), WITHIN_1,
             ((INF, NAN), (NAN, NAN)), triton="(tl.sin({0}) / tl.cos({0}))", cost="costly"),
    function("asin", "inverse sine", rule(_inverse_root(1.0)), WITHIN_1,
             ((1.5, NAN), (-1.5, NAN), (1.0, math.pi / 2), (NAN, NAN)), domain=UNIT, numpy="np.arcsin({0})",
             triton="asin({0})", cost="costly"),
    function("acos", "inverse cosine", rule(_inverse_root(-1.0)), WITHIN_1,
             ((1.5, NAN), (-1.5, NAN), (1.0, 0.0), (NAN, NAN)), domain=UNIT, range=POSITIVE, numpy="np.arccos({0})",
             triton="acos({0})", cost="costly"),
    function("atan", "inverse tangent",
             rule(lambda x, y: d.div(d.number(1.0), d.add(d.number(1.0), d.mul(x, x)))), ANY,
             ((INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN)), tame=True, numpy="np.arctan({0})",
             triton="atan({0})", cost="costly"),
    function("sinh", "hyperbolic sine", rule(lambda x, y: d.call("cosh", x)), ANY,
             ((INF, INF), (-INF, -INF), (NAN, NAN)), triton="sinh({0})", cost="costly"),
    function("cosh", "hyperbolic cosine", rule(lambda x, y: d.call("sinh", x)), ANY,
             ((INF, INF), (-INF, INF), (NAN, NAN)), range=(1.0, INF), triton="cosh({0})", cost="costly"),
    function("tanh", "hyperbolic tangent", _tanh, ANY,
             ((INF, 1.0), (-INF, -1.0), (NAN, NAN)), range=UNIT, tame=True, triton="tanh({0})",
             cost="costly", slope_from_value=True),
    function("asinh", "inverse hyperbolic sine",
             rule(lambda x, y: d.div(d.number(1.0), d.call("hypot", x, d.number(1.0)))), ANY,
             ((INF, INF), (-INF, -INF), (NAN, NAN)), tame=True, numpy="np.arcsinh({0})", triton="asinh({0})",
             cost="costly"),
    function("acosh", "inverse hyperbolic cosine",
             rule(lambda x, y: d.call("rsqrt", d.mul(d.sub(x, d.number(1.0)), d.add(x, d.number(1.0))))), ABOVE_1,
             ((0.5, NAN), (1.0, 0.0), (INF, INF), (NAN, NAN)), domain=(1.0, INF), range=POSITIVE,
             numpy="np.arccosh({0})", triton="acosh({0})", cost="costly"),
    function("atanh", "inverse hyperbolic tangent",
             rule(lambda x, y: d.div(d.number(1.0), d.mul(d.sub(d.number(1.0), x), d.add(d.number(1.0), x)))), WITHIN_1,
             ((1.0, INF), (-1.0, -INF), (1.5, NAN), (NAN, NAN)), domain=UNIT, numpy="np.arctanh({0})",
             triton="atanh({0})", cost="costly"),
    _power_record("pow", True),
    _power_record("^", False),
)  # fmt: skip
