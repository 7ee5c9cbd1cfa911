"""Records: the sigmoid and its integral, the error function and its relatives, the gamma function's logarithm."""

from __future__ import annotations

import math

from dslc.ir import algebra as d
from dslc.ops.elementary import ANY, INF, NAN, WITHIN_1
from dslc.ops.record import POSITIVE, UNIT, function, rule

GAMMA = (-1.3, -0.4, 0.7, 5.6)
SLOPE = 2 / math.sqrt(math.pi)

SPECIAL_FUNCTIONS = (
    function("sigmoid", "1 / (1 + e^-x)", rule(lambda x, y: d.sub(y, d.mul(y, y))), ANY,
             ((INF, 1.0), (-INF, 0.0), (-1e4, 0.0), (NAN, NAN)), range=(0.0, 1.0), tame=True, numpy="sigmoid({0})",
             plain="(1 / (1 + math.exp(-({0}))))", c="(1 / (1 + exp{f}(-({0}))))"),
    function("softplus", "log(1 + e^x), the integral of the sigmoid", rule(lambda x, y: d.call("sigmoid", x)), ANY,
             ((INF, INF), (-INF, 0.0), (1e4, 1e4), (NAN, NAN)), range=POSITIVE, tame=True, numpy="softplus({0})",
             plain="(max({0}, 0) + math.log1p(math.exp(-abs({0}))))", triton="softplus({0})",
             c="(fmax{f}({0}, 0) + log1p{f}(exp{f}(-fabs{f}({0}))))", oracle="torch.nn.functional.softplus",
             in_language=False),
    function("erf", "error function",
             rule(lambda x, y: d.mul(d.number(SLOPE), d.call("exp", d.neg(d.mul(x, x))))), ANY,
             ((INF, 1.0), (-INF, -1.0), (NAN, NAN)), range=UNIT, tame=True, numpy="erf({0})"),
    function("erfc", "1 - erf(x)",
             rule(lambda x, y: d.mul(d.number(-SLOPE), d.call("exp", d.neg(d.mul(x, x))))), ANY,
             ((INF, 0.0), (-INF, 2.0), (NAN, NAN)), range=(0.0, 2.0), tame=True, numpy="erfc({0})",
             triton="erfc({0})"),
    function("erfcx", "e^(x^2) erfc(x)",
             rule(lambda x, y: d.sub(d.mul(d.mul(d.number(2.0), x), y), d.number(SLOPE))), ANY,
             ((INF, 0.0), (-INF, INF), (NAN, NAN)), range=POSITIVE, numpy="erfcx({0})",
             plain="float(erfcx(np.asarray({0}, np.float64)))", triton="erfcx({0})", c="erfcx{f}({0})",
             oracle="torch.special.erfcx", in_language=False),
    function("erfinv", "inverse of erf",
             rule(lambda x, y: d.mul(d.number(1 / SLOPE), d.call("exp", d.mul(y, y)))), WITHIN_1,
             ((1.0, INF), (-1.0, -INF), (1.5, NAN), (NAN, NAN)), domain=UNIT, numpy="erfinv({0})",
             plain="float(erfinv(np.asarray({0}, np.float64)))", triton="erfinv({0})", c="erfinv{f}({0})"),
    function("lgamma", "log of the gamma function", rule(lambda x, y: d.call("digamma", x)), GAMMA,
             ((0.0, INF), (-2.0, INF), (INF, INF), (1.0, 0.0), (NAN, NAN)), numpy="lgamma({0})",
             triton="lgamma({0})"),
    function("digamma", "derivative of lgamma", rule(lambda x, y: d.call("trigamma", x)), GAMMA,
             ((0.0, -INF), (-2.0, NAN), (INF, INF), (NAN, NAN)), numpy="digamma({0})",
             plain="float(digamma(np.asarray({0}, np.float64)))", triton="digamma({0})", c="digamma{f}({0})"),
    function("trigamma", "derivative of digamma", None, GAMMA,
             ((0.0, INF), (-2.0, INF), (INF, 0.0), (NAN, NAN)), range=POSITIVE, numpy="trigamma({0})",
             plain="float(trigamma(np.asarray({0}, np.float64)))", triton="trigamma({0})", c="trigamma{f}({0})",
             oracle="scipy.special.polygamma", in_language=False),
)  # fmt: skip
