"""The scalar functions of the language: one record each.

A record says what the front end must know: how many arguments, which dtypes it takes and gives, and where it is
defined. Later stages add their own fields to the same record (derivative, stable forms, texts of the backends).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: float: floats in and out. same: the dtype of the argument. bool: a condition. int: whole-number result.
Gives = Literal["float", "same", "bool"]


@dataclass(frozen=True)
class ScalarOp:
    name: str
    arity: int
    gives: Gives
    #: one line for the reader of `dslc show NAME`
    meaning: str
    #: derivative is zero wherever it exists
    flat: bool = False


def _table(*ops: ScalarOp) -> dict[str, ScalarOp]:
    return {op.name: op for op in ops}


SCALAR_OPS = _table(
    ScalarOp("exp", 1, "float", "e^x"),
    ScalarOp("exp2", 1, "float", "2^x"),
    ScalarOp("expm1", 1, "float", "e^x - 1, exact near 0"),
    ScalarOp("log", 1, "float", "natural logarithm"),
    ScalarOp("log2", 1, "float", "logarithm to the base 2"),
    ScalarOp("log10", 1, "float", "logarithm to the base 10"),
    ScalarOp("log1p", 1, "float", "log(1 + x), exact near 0"),
    ScalarOp("sqrt", 1, "float", "square root"),
    ScalarOp("rsqrt", 1, "float", "1 / sqrt(x)"),
    ScalarOp("square", 1, "same", "x * x"),
    ScalarOp("abs", 1, "same", "|x|, derivative 0 at 0"),
    ScalarOp("sign", 1, "same", "-1, 0 or 1", flat=True),
    ScalarOp("sin", 1, "float", "sine"),
    ScalarOp("cos", 1, "float", "cosine"),
    ScalarOp("tan", 1, "float", "tangent"),
    ScalarOp("asin", 1, "float", "inverse sine"),
    ScalarOp("acos", 1, "float", "inverse cosine"),
    ScalarOp("atan", 1, "float", "inverse tangent"),
    ScalarOp("atan2", 2, "float", "angle of the point (x, y), given as atan2(y, x)"),
    ScalarOp("sinh", 1, "float", "hyperbolic sine"),
    ScalarOp("cosh", 1, "float", "hyperbolic cosine"),
    ScalarOp("tanh", 1, "float", "hyperbolic tangent"),
    ScalarOp("asinh", 1, "float", "inverse hyperbolic sine"),
    ScalarOp("acosh", 1, "float", "inverse hyperbolic cosine"),
    ScalarOp("atanh", 1, "float", "inverse hyperbolic tangent"),
    ScalarOp("sigmoid", 1, "float", "1 / (1 + e^-x)"),
    ScalarOp("relu", 1, "same", "max(0, x), derivative 0 at 0"),
    ScalarOp("erf", 1, "float", "error function"),
    ScalarOp("erfc", 1, "float", "1 - erf(x)"),
    ScalarOp("erfinv", 1, "float", "inverse of erf"),
    ScalarOp("lgamma", 1, "float", "log of the gamma function"),
    ScalarOp("digamma", 1, "float", "derivative of lgamma"),
    ScalarOp("floor", 1, "same", "largest whole number below", flat=True),
    ScalarOp("ceil", 1, "same", "smallest whole number above", flat=True),
    ScalarOp("round", 1, "same", "nearest whole number, ties to even", flat=True),
    ScalarOp("trunc", 1, "same", "whole part", flat=True),
    ScalarOp("min", 2, "same", "the smaller one; a tie splits the derivative evenly"),
    ScalarOp("max", 2, "same", "the larger one; a tie splits the derivative evenly"),
    ScalarOp("clip", 3, "same", "clip(x, low, high)"),
    ScalarOp("pow", 2, "float", "x^y"),
    ScalarOp("hypot", 2, "float", "sqrt(x^2 + y^2)"),
    ScalarOp("isnan", 1, "bool", "is it not a number"),
    ScalarOp("isinf", 1, "bool", "is it infinite"),
    ScalarOp("isfinite", 1, "bool", "is it finite"),
)

#: reductions: the bound indices disappear
REDUCTIONS = {
    "sum": "sum", "mean": "average", "prod": "product", "max": "largest value", "min": "smallest value",
    "any": "is one true", "all": "are all true", "argmax": "position of the first largest value",
    "argmin": "position of the first smallest value",
}  # fmt: skip

#: the bound index stays: one result per position
ALONG_AXIS = {
    "cumsum": "running sum", "cumprod": "running product", "cummax": "running maximum",
    "cummin": "running minimum", "sort": "values in ascending order", "argsort": "positions in ascending order",
}  # fmt: skip

#: random draws, one for each element of the bracketed indices: name -> (least, most) arguments
DRAWS = {"normal": (0, 2), "uniform": (0, 2), "bernoulli": (1, 1), "randint": (2, 2), "gumbel": (0, 0)}

#: initialisers after `~`: name -> (least, most) arguments
INITIALIZERS = {
    "zeros": (0, 0), "ones": (0, 0), "constant": (1, 1), "normal": (0, 1), "uniform": (0, 2), "glorot": (0, 0),
    "he": (0, 0), "lecun": (0, 0), "orthogonal": (0, 1), "identity": (0, 0),
}  # fmt: skip

#: derivatives inside a spec: name -> number of arguments
DERIVATIVES = {"grad": 2, "jvp": 3, "vjp": 3, "jacobian": 2, "hessian": 2}

CASTS = ("float", "f16", "bf16", "f32", "f64", "i32", "i64", "bool")

CONSTANTS = {"pi": 3.141592653589793, "inf": float("inf"), "nan": float("nan")}

#: other words with a meaning of their own in calls
SPECIAL = ("einsum", "stop_grad", "concat", "top_k", "one_hot", "prefix", "fft", "ifft", "wrap", "clamp")

#: linear algebra on square matrices and right-hand sides: name -> number of arguments
EXTERNALS = {"solve": 2, "inv": 1, "det": 1, "logdet": 1, "matexp": 1, "cholesky": 1, "eigh": 1}

BUILTIN_NAMES = frozenset(
    {*SCALAR_OPS, *REDUCTIONS, *ALONG_AXIS, *DRAWS, *DERIVATIVES, *CASTS, *CONSTANTS, *SPECIAL, *EXTERNALS}
)
