"""The operations of the language: scalar ones with a record each, and the names of all others."""

from __future__ import annotations

from collections.abc import Callable

from dslc.ops.arithmetic import ARITHMETIC, KINKED
from dslc.ops.elementary import ELEMENTARY
from dslc.ops.record import ScalarOp
from dslc.ops.special import SPECIAL_FUNCTIONS

#: everything that the body of a comprehension can apply
RECORDS: dict[str, ScalarOp] = {r.name: r for r in (*ELEMENTARY, *KINKED, *SPECIAL_FUNCTIONS, *ARITHMETIC)}

#: those that a spec can call by name
SCALAR_OPS: dict[str, ScalarOp] = {name: r for name, r in RECORDS.items() if r.in_language}


def having(fact: Callable[[ScalarOp], bool]) -> frozenset[str]:
    """The operations of which something holds.

    >>> sorted(having(lambda r: r.whole == "makes"))
    ['ceil', 'floor', 'round', 'trunc']
    """
    return frozenset(name for name, r in RECORDS.items() if fact(r))


#: operations on floats that cost nothing; those that cost at most about an addition; those that cost many
FREE = having(lambda r: r.cost == "free")
CHEAP = having(lambda r: r.cost in ("free", "cheap"))
COSTLY = having(lambda r: r.cost == "costly")

#: operations that give the same result however they are computed
EXACT = having(lambda r: r.exact)

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

#: functions named as the dtype that they give; `widened` gives 16-bit numbers that of the module, and leaves wider ones
CASTS = ("float", "f16", "bf16", "f32", "f64", "i32", "i64", "bool", "widened")

CONSTANTS = {"pi": 3.141592653589793, "inf": float("inf"), "nan": float("nan")}

#: other words with a meaning of their own in calls
SPECIAL = ("einsum", "stop_grad", "concat", "top_k", "one_hot", "prefix", "fft", "ifft", "wrap", "clamp")

#: linear algebra on square matrices and right-hand sides: name -> number of arguments
EXTERNALS = {"solve": 2, "inv": 1, "det": 1, "logdet": 1, "matexp": 1, "cholesky": 1, "eigh": 1}

BUILTIN_NAMES = frozenset(
    {*SCALAR_OPS, *REDUCTIONS, *ALONG_AXIS, *DRAWS, *DERIVATIVES, *CASTS, *CONSTANTS, *SPECIAL, *EXTERNALS}
)
