"""Records: the four operations, whole numbers, comparisons, conditions, choices, and the functions with kinks."""

from __future__ import annotations

import math

from dslc.dtypes import is_float
from dslc.ir import algebra as d
from dslc.ir import nodes as ir
from dslc.ops.elementary import ANY, INF, NAN, OTHER
from dslc.ops.record import (
    POSITIVE,
    REAL,
    Adjoints,
    Cost,
    Gives,
    Interval,
    Points,
    Rule,
    ScalarOp,
    Whole,
    finite_for,
    function,
    rule,
)  # fmt: skip

Edges = tuple[tuple[Points, float], ...]


def _binary(
    name: str, meaning: str, derivative: Rule | None, edges: Edges, numpy: str, oracle: str, *, cost: Cost,
    gives: Gives = "same", tame: bool = True, kinks: str = "", plain: str = "", triton: str = "", c: str = "",
    in_language: bool = False, samples: tuple[Points, ...] = (ANY, OTHER), range: Interval = REAL,
    linear: bool = False, exact: bool = False, whole: Whole = "",
) -> ScalarOp:  # fmt: skip
    """An operation on two numbers; texts that are not given are the one for NumPy."""
    return ScalarOp(
        name=name, arity=2, gives=gives, meaning=meaning, domain=(REAL, REAL), range=range, derivative=derivative,
        flat=derivative is None, tame=tame, kinks=kinks, cost=cost, finite_for=finite_for(tame, range), numpy=numpy,
        plain=plain or f"({numpy})", triton=triton or f"({numpy})", c=c or f"({numpy})", oracle=f"torch.{oracle}",
        samples=samples, edges=edges, in_language=in_language, linear=linear, exact=exact, whole=whole,
    )  # fmt: skip


def _tie(name: str) -> Rule:
    """The winner takes the adjoint; a tie splits it evenly."""

    def pairwise(y: ir.Op, a: ir.Scalar) -> Adjoints:
        p, q = y.args
        shared = d.where(d.compare("==", p, q), d.mul(a, d.number(0.5)))
        return d.choose(d.compare(name, p, q), a, shared), d.choose(d.compare(name, q, p), a, shared)

    return pairwise


def _abs(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d |x| = sign(x) dx, and 0 at 0 whatever the adjoint is: that of sqrt(|x|) is infinite there."""
    (x,) = y.args
    scaled = d.mul(a, d.call("sign", x))
    return (scaled if isinstance(a, ir.Const) else d.where(d.compare("!=", x, d.number(0.0)), scaled),)


def _clip(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """clip(x, low, high) = min(max(x, low), high)"""
    x, low, high = y.args
    inner = ir.op("max", (x, low), y.dtype)
    outer = ir.op("min", (inner, high), y.dtype)
    assert isinstance(inner, ir.Op) and isinstance(outer, ir.Op)
    by_inner, by_high = _tie("<")(outer, a)
    assert by_inner is not None
    by_x, by_low = _tie(">")(inner, by_inner)
    return by_x, by_low, by_high


def _atan2(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d atan2(v, u) = (u dv - v du) / r^2 with r = hypot(u, v), divided by r twice: r^2 need not exist; 0 at 0"""
    v, u = y.args
    r = d.call("hypot", u, v)
    a = d.where(d.compare(">", r, d.number(0.0)), a)
    return d.mul(a, d.div(d.div(u, r), r)), d.neg(d.mul(a, d.div(d.div(v, r), r)))


def _hypot(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """d hypot(p, q) = (p dp + q dq) / hypot(p, q); 0 at 0"""
    a = d.where(d.compare(">", y, d.number(0.0)), a)
    p, q = y.args
    return d.mul(a, d.div(p, y)), d.mul(a, d.div(q, y))


def _select(y: ir.Op, a: ir.Scalar) -> Adjoints:
    """The chosen branch takes the adjoint, the other one exactly 0."""
    none = ir.const(0.0, a.dtype)
    return None, d.choose(y.args[0], a, none), d.choose(y.args[0], none, a)


def _cast(y: ir.Op, a: ir.Scalar) -> Adjoints:
    return (d.cast(a, y.args[0].dtype) if is_float(y.args[0].dtype) else None,)


def _comparison(symbol: str, meaning: str, oracle: str) -> ScalarOp:
    edges = (((1.0, 1.0), float(symbol in ("<=", ">=", "=="))), ((NAN, 1.0), float(symbol == "!=")))
    return _binary(symbol, meaning, None, edges, f"{{0}} {symbol} {{1}}", oracle, gives="bool", cost="free", exact=True)


def _rounding(name: str, meaning: str, triton: str = "", plain: str = "", c: str = "") -> ScalarOp:
    return function(name, meaning, None, (*ANY, 0.5, -1.5, 2.5), ((INF, INF), (-INF, -INF), (NAN, NAN)), gives="same",
                    plain=plain, triton=triton, c=c, cost="medium", exact=True, whole="makes")  # fmt: skip


def _logical(name: str, symbol: str, word: str, c: str) -> ScalarOp:
    return ScalarOp(
        name=name, arity=0, gives="bool", meaning=f"{word} hold", domain=(REAL, REAL), range=(0.0, 1.0),
        derivative=None, flat=True, tame=True, kinks="", cost="free", finite_for="any",
        value=f"np.logical_{name}({{0}}, {{1}})", numpy=f"{{0}} {symbol} {{1}}", plain=f"({{0}} {name} {{1}})",
        triton=f"({{0}} {symbol} {{1}})", c=f"({{0}} {c} {{1}})", oracle=f"torch.logical_{name}",
        samples=((0.0, 0.0, 1.0, 1.0), (0.0, 1.0, 0.0, 1.0)), edges=(), in_language=False, exact=True,
    )  # fmt: skip


_KEEP = "propagate_nan=tl.PropagateNan.ALL"

ARITHMETIC = (
    _binary("+", "sum", lambda y, a: (a, a), (((INF, -INF), NAN), ((NAN, 1.0), NAN)), "{0} + {1}", "add",
            cost="cheap", linear=True, whole="keeps"),
    _binary("-", "difference", lambda y, a: (a, d.neg(a)), (((INF, INF), NAN), ((NAN, 1.0), NAN)), "{0} - {1}", "sub",
            cost="cheap", linear=True, whole="keeps"),
    _binary("*", "product", lambda y, a: (d.mul(a, y.args[1]), d.mul(a, y.args[0])),
            (((0.0, INF), NAN), ((NAN, 0.0), NAN)), "{0} * {1}", "mul",
            cost="cheap", whole="keeps"),
    _binary("/", "quotient", lambda y, a: (d.div(a, y.args[1]), d.neg(d.div(d.mul(a, y), y.args[1]))),
            (((1.0, 0.0), INF), ((0.0, 0.0), NAN), ((INF, INF), NAN), ((1.0, INF), 0.0)), "{0} / {1}", "div",
            gives="float", tame=False, cost="medium"),
    _binary("//", "quotient, rounded down", None, (), "{0} // {1}", "floor_divide", gives="int", cost="medium",
            triton="floor_divide({0}, {1})", c="floor_divide{f}({0}, {1})",
            samples=((7.0, -7.0, 8.0, 0.0), (2.0, 2.0, 3.0, 5.0))),
    _binary("%", "remainder, of the sign of the divisor", None, (), "{0} % {1}", "remainder", gives="int",
            cost="medium", triton="remainder({0}, {1})", c="remainder{f}({0}, {1})",
            samples=((7.0, -7.0, 8.0, 0.0), (2.0, 2.0, 3.0, 5.0))),
    function("neg", "-x", lambda y, a: (d.neg(a),), ANY, ((INF, -INF), (NAN, NAN)), gives="same", tame=True,
             numpy="-{0}", plain="(-({0}))", triton="(-{0})", c="(-{0})", in_language=False,
             cost="cheap", linear=True, exact=True, whole="keeps"),
    _comparison("<", "less", "lt"),
    _comparison("<=", "at most", "le"),
    _comparison(">", "greater", "gt"),
    _comparison(">=", "at least", "ge"),
    _comparison("==", "equal", "eq"),
    _comparison("!=", "not equal", "ne"),
    _logical("and", "&", "both", "&&"),
    _logical("or", "|", "one of two", "||"),
    function("not", "does not hold", None, (0.0, 1.0), (), gives="bool", range=(0.0, 1.0),
             numpy="np.logical_not({0})", plain="(not ({0}))", triton="({0} == 0)", c="(!({0}))",
             oracle="torch.logical_not", in_language=False, cost="free", exact=True),
    ScalarOp(name="select", arity=3, gives="same", meaning="the second where the first holds, else the third",
             domain=(REAL, REAL, REAL), range=REAL, derivative=_select, flat=False, tame=True,
             kinks="that of the chosen branch, and exactly 0 for the other", numpy="np.where({0}, {1}, {2})",
             plain="({1} if {0} else {2})", triton="tl.where({0}, {1}, {2})", c="({0} ? {1} : {2})",
             oracle="torch.where", samples=((0.0, 1.0, 0.0, 1.0), ANY, OTHER),
             edges=(((1.0, 2.0, NAN), 2.0), ((0.0, INF, 3.0), 3.0)), in_language=False,
             cost="free", finite_for="any", linear=True, exact=True),
    function("cast", "another dtype", _cast, ANY, ((INF, INF), (NAN, NAN)), gives="same", tame=True,
             numpy="{0}.astype(DTYPE)", plain="float({0})", triton="{0}.to(DTYPE)", c="((DTYPE)({0}))",
             oracle="torch.clone", in_language=False, cost="free", linear=True, exact=True, keeps_sign=True),
    function("stop_grad", "x, without a derivative", lambda y, a: (None,), ANY, ((NAN, NAN),), gives="same", tame=True,
             numpy="{0}", plain="({0})", triton="{0}", c="({0})", oracle="torch.detach", in_language=False,
             cost="free", exact=True, keeps_sign=True),
)  # fmt: skip

KINKED = (
    function("square", "x * x", rule(lambda x, y: d.mul(d.number(2.0), x)), ANY, ((INF, INF), (NAN, NAN)), gives="same",
             range=POSITIVE, tame=True, plain="(({0}) * ({0}))", triton="({0} * {0})",
             cost="medium", whole="keeps"),
    function("abs", "|x|, derivative 0 at 0", _abs, ANY, ((-INF, INF), (NAN, NAN)),
             gives="same", range=POSITIVE, tame=True, kinks="0 at 0", plain="abs({0})", c="abs{f}({0})",
             cost="cheap", exact=True, whole="keeps"),
    function("sign", "-1, 0 or 1", None, ANY, ((0.0, 0.0), (-INF, -1.0), (NAN, NAN)), gives="same",
             range=(-1.0, 1.0), plain="((({0}) > 0) - (({0}) < 0))",
             triton="tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, {0}))",
             kinks="0 everywhere", cost="cheap", exact=True, whole="keeps"),
    function("relu", "max(0, x), derivative 0 at 0",
             lambda y, a: (d.where(d.compare(">", y.args[0], d.number(0.0)), a),), ANY,
             ((INF, INF), (-INF, 0.0), (NAN, NAN)), gives="same", range=POSITIVE, tame=True, kinks="0 at 0",
             numpy="np.maximum({0}, 0)", plain="max({0}, 0)", triton=f"tl.maximum({{0}}, 0.0, {_KEEP})",
             cost="cheap", exact=True, whole="keeps"),
    _rounding("floor", "largest whole number below"),
    _rounding("ceil", "smallest whole number above"),
    _rounding("round", "nearest whole number, ties to even", "round_even({0})", "round({0})", "rint{f}({0})"),
    _rounding("trunc", "whole part", "tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))"),
    _binary("min", "the smaller one; a tie splits the derivative evenly", _tie("<"),
            (((NAN, 1.0), NAN), ((1.0, NAN), NAN), ((-INF, 1.0), -INF)), "np.minimum({0}, {1})", "minimum",
            kinks="one half for each where they are equal", plain="min({0}, {1})",
            triton=f"tl.minimum({{0}}, {{1}}, {_KEEP})", c="min{f}({0}, {1})", in_language=True,
            cost="cheap", exact=True, whole="keeps"),
    _binary("max", "the larger one; a tie splits the derivative evenly", _tie(">"),
            (((NAN, 1.0), NAN), ((1.0, NAN), NAN), ((-INF, 1.0), 1.0)), "np.maximum({0}, {1})", "maximum",
            kinks="one half for each where they are equal", plain="max({0}, {1})",
            triton=f"tl.maximum({{0}}, {{1}}, {_KEEP})", c="max{f}({0}, {1})", in_language=True,
            cost="cheap", exact=True, whole="keeps"),
    ScalarOp(name="clip", arity=3, gives="same", meaning="clip(x, low, high)", domain=(REAL, REAL, REAL), range=REAL,
             derivative=_clip, flat=False, tame=True, kinks="at a bound one half for x, one half for the bound",
             numpy="np.minimum(np.maximum({0}, {1}), {2})", plain="min(max({0}, {1}), {2})",
             triton=f"tl.minimum(tl.maximum({{0}}, {{1}}, {_KEEP}), {{2}}, {_KEEP})",
             c="clip{f}({0}, {1}, {2})", oracle="torch.clip",
             samples=((-2.0, 0.3, 2.5, 1.0), (-1.0, 0.1, -1.5, 2.0), (1.0, 0.9, 1.5, 3.0)),
             edges=(((NAN, 0.0, 1.0), NAN), ((INF, 0.0, 1.0), 1.0), ((-INF, 0.0, 1.0), 0.0)), in_language=True,
             cost="cheap", finite_for="any", exact=True, whole="keeps"),
    _binary("atan2", "angle of the point (x, y), given as atan2(y, x)", _atan2,
            (((0.0, -1.0), math.pi), ((1.0, 0.0), math.pi / 2), ((NAN, 1.0), NAN)), "np.arctan2({0}, {1})", "atan2",
            gives="float", kinks="0 at the origin", tame=False,
            plain="math.atan2({0}, {1})", triton="atan2({0}, {1})", c="atan2{f}({0}, {1})",
            in_language=True, cost="costly"),
    _binary("hypot", "sqrt(x^2 + y^2)", _hypot,
            (((0.0, 0.0), 0.0), ((INF, NAN), INF), ((NAN, 1.0), NAN), ((-3.0, 4.0), 5.0)), "np.hypot({0}, {1})",
            "hypot", gives="float", kinks="0 at 0", plain="math.hypot({0}, {1})", triton="hypot({0}, {1})",
            c="hypot{f}({0}, {1})", in_language=True, range=POSITIVE, cost="medium"),
    function("isnan", "is it not a number", None, ANY, ((NAN, 1.0), (INF, 0.0)), gives="bool", range=(0.0, 1.0),
             triton="({0} != {0})", cost="free", exact=True),
    function("isinf", "is it infinite", None, ANY, ((NAN, 0.0), (-INF, 1.0)), gives="bool", range=(0.0, 1.0),
             triton='(tl.abs({0}) == float("inf"))', cost="free", exact=True),
    function("isfinite", "is it finite", None, ANY, ((NAN, 0.0), (INF, 0.0)), gives="bool", range=(0.0, 1.0),
             triton='(tl.abs({0}) < float("inf"))', cost="free", exact=True),
)  # fmt: skip
