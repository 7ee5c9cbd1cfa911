"""Records: the sigmoid and its integral, the error function and its relatives, the gamma function's logarithm."""

from __future__ import annotations

import math

from dslc.ir import algebra as d
from dslc.ir import nodes as ir
from dslc.ops.elementary import ANY, INF, NAN, WITHIN_1
from dslc.ops.record import POSITIVE, UNIT, Adjoints, ScalarOp, function, rule

GAMMA = (-1.3, -0.4, 0.7, 5.6)
SLOPE = 2 / math.sqrt(math.pi)


def _zeta(order: ir.Scalar, x: ir.Scalar) -> ir.Scalar:
    return ir.op("zeta", (order, x), x.dtype)


def _zeta_adjoints(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """zeta'(s, x) = -s zeta(s + 1, x); the order is a number."""
    order, x = y.args
    assert isinstance(order, ir.Const)
    return None, d.mul(a, d.mul(d.number(-order.value), _zeta(d.number(order.value + 1), x)))


def _trigamma_slope(x: ir.Scalar) -> ir.Scalar:
    """-2 zeta(3, x); below 1/2, by reflection, -2 zeta(3, 1 - x) - 2 pi^3 cos(pi x) / sin(pi x)^3."""
    low = d.compare("<", x, d.number(0.5))
    angle = d.mul(d.number(math.pi), d.sub(x, d.call("round", x)))
    sine = d.call("sin", angle)
    turned = d.div(d.call("cos", angle), d.mul(sine, d.mul(sine, sine)))
    series = _zeta(d.number(3.0), d.choose(low, d.sub(d.number(1.0), x), x))
    return d.mul(d.number(-2.0), d.add(series, d.where(low, d.mul(d.number(math.pi**3), turned))))


SPECIAL_FUNCTIONS = (
    function("sigmoid", "1 / (1 + e^-x)", rule(lambda x, y: d.sub(y, d.mul(y, y))), ANY,
             ((INF, 1.0), (-INF, 0.0), (-1e4, 0.0), (NAN, NAN)), range=(0.0, 1.0), tame=True, numpy="sigmoid({0})",
             plain="(1 / (1 + math.exp(-({0}))))",
             cost="costly", slope_from_value=True),
    function("softplus", "log(1 + e^x), the integral of the sigmoid", rule(lambda x, y: d.call("sigmoid", x)), ANY,
             ((INF, INF), (-INF, 0.0), (1e4, 1e4), (NAN, NAN)), range=POSITIVE, tame=True, numpy="softplus({0})",
             plain="(max({0}, 0) + math.log1p(math.exp(-abs({0}))))", triton="softplus({0})",
             oracle="torch.nn.functional.softplus",
             in_language=False, cost="costly"),
    function("erf", "error function",
             rule(lambda x, y: d.mul(d.number(SLOPE), d.call("exp", d.neg(d.mul(x, x))))), ANY,
             ((INF, 1.0), (-INF, -1.0), (NAN, NAN)), range=UNIT, tame=True, numpy="erf({0})", cost="costly"),
    function("erfc", "1 - erf(x)",
             rule(lambda x, y: d.mul(d.number(-SLOPE), d.call("exp", d.neg(d.mul(x, x))))), ANY,
             ((INF, 0.0), (-INF, 2.0), (NAN, NAN)), range=(0.0, 2.0), tame=True, numpy="erfc({0})",
             triton="erfc({0})", cost="costly"),
    function("normal_cdf", "erfc(-x / sqrt(2)) / 2, the normal distribution",
             rule(lambda x, y: d.mul(d.number(SLOPE / 8**0.5), d.call("exp", d.mul(d.number(-0.5), d.mul(x, x))))),
             ANY, ((INF, 1.0), (-INF, 0.0), (NAN, NAN)), range=(0.0, 1.0), tame=True, numpy="normal_cdf({0})",
             plain="(0.5 * math.erfc(({0}) / -math.sqrt(2)))", triton="(0.5 * erfc(({0}) * -0.7071067811865476))",
             oracle="torch.special.ndtr", in_language=False, cost="costly"),
    function("erfcx", "e^(x^2) erfc(x)",
             rule(lambda x, y: d.sub(d.mul(d.mul(d.number(2.0), x), y), d.number(SLOPE))), ANY,
             ((INF, 0.0), (-INF, INF), (NAN, NAN)), range=POSITIVE, numpy="erfcx({0})",
             plain="float(erfcx(np.asarray({0}, np.float64)))", triton="erfcx({0})",
             oracle="torch.special.erfcx", in_language=False, cost="costly"),
    function("erfinv", "inverse of erf",
             rule(lambda x, y: d.mul(d.number(1 / SLOPE), d.call("exp", d.mul(y, y)))), WITHIN_1,
             ((1.0, INF), (-1.0, -INF), (1.5, NAN), (NAN, NAN)), domain=UNIT, numpy="erfinv({0})",
             plain="float(erfinv(np.asarray({0}, np.float64)))", triton="erfinv({0})",
             cost="costly"),
    function("lgamma", "log of the gamma function", rule(lambda x, y: d.call("digamma", x)), GAMMA,
             ((0.0, INF), (-2.0, INF), (INF, INF), (1.0, 0.0), (NAN, NAN)), numpy="lgamma({0})",
             triton="lgamma({0})", cost="costly"),
    function("digamma", "derivative of lgamma", rule(lambda x, y: d.call("trigamma", x)), GAMMA,
             ((0.0, -INF), (-2.0, NAN), (INF, INF), (NAN, NAN)), numpy="digamma({0})",
             plain="float(digamma(np.asarray({0}, np.float64)))", triton="digamma({0})",
             cost="costly"),
    function("trigamma", "derivative of digamma", rule(lambda x, y: _trigamma_slope(x)), GAMMA,
             ((0.0, INF), (-2.0, INF), (INF, 0.0), (NAN, NAN)), range=POSITIVE, numpy="trigamma({0})",
             plain="float(trigamma(np.asarray({0}, np.float64)))", triton="trigamma({0})",
             oracle="torch.special.polygamma", in_language=False, cost="costly"),
    ScalarOp(name="zeta", arity=2, gives="float", meaning="the sum of (x + k)^-s over k = 0, 1, ...",
             domain=((1.0, INF), POSITIVE), range=POSITIVE, derivative=_zeta_adjoints, flat=False, tame=False, kinks="",
             numpy="zeta({0}, {1})", plain="float(zeta({0}, np.asarray({1}, np.float64)))", triton="zeta({0}, {1})",
             c="zeta{f}({0}, {1})", oracle="torch.special.zeta",
             samples=((3.0, 4.0, 2.5, 7.0), (0.5, 0.9, 3.7, 15.0)),
             edges=(((3.0, 0.0), INF), ((3.0, NAN), NAN)), in_language=False,
             cost="costly", finite_for="none"),
)  # fmt: skip
