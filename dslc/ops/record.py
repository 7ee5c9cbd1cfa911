"""What dslc knows about one scalar operation: its record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dslc.ir import algebra as d
from dslc.ir import nodes as ir

#: float: floats in and out. same: the dtype of the arguments. bool: a condition. int: whole numbers.
Gives = Literal["float", "same", "bool", "int"]

Adjoints = tuple[ir.Scalar | None, ...]

#: from the operation and the adjoint of its result to the adjoints of its arguments; None for an argument without one
Rule = Callable[[ir.Op, ir.Scalar], Adjoints]

Interval = tuple[float, float]
Points = tuple[float, ...]

REAL: Interval = (-math.inf, math.inf)
POSITIVE: Interval = (0.0, math.inf)
UNIT: Interval = (-1.0, 1.0)


@dataclass(frozen=True)
class ScalarOp:
    """One scalar operation. It has a field for everything that any stage asks of it, so that a new one is one record.

    Texts are formats: `{0}`, `{1}` are the arguments, in C `{f}` is the suffix of float functions. NumPy texts may name
    functions of the runtime, Triton texts without `tl.` device functions that the backend defines.
    """

    name: str
    #: 0: any number of arguments
    arity: int
    gives: Gives
    #: one line for the reader of `dslc show NAME`
    meaning: str
    #: where each argument may lie; NaN outside
    domain: tuple[Interval, ...]
    #: what a result is never outside of
    range: Interval
    #: None: the result does not vary with its arguments, or dslc does not know how
    derivative: Rule | None
    #: the derivative is zero wherever it exists
    flat: bool
    #: the derivatives are finite wherever the arguments are
    tame: bool
    #: the derivative where it has none, in words; empty where it always has one
    kinks: str
    numpy: str
    #: on Python numbers that are known when the module is printed
    plain: str
    triton: str
    c: str
    #: the function of torch (or scipy) that tests compare with
    oracle: str
    #: arguments inside the domain and away from kinks, one tuple for each argument
    samples: tuple[Points, ...]
    #: arguments at the edges of the domain and beyond, and the result there
    edges: tuple[tuple[Points, float], ...]
    #: can be called by name in a spec
    in_language: bool


def rule(derivative: Callable[[ir.Scalar, ir.Scalar], ir.Scalar]) -> Rule:
    """The rule of f(x), with f'(x) given from x and the result y."""
    return lambda y, a: (d.mul(a, derivative(y.args[0], y)),)


def function(
    name: str,
    meaning: str,
    derivative: Rule | None,
    samples: Points,
    edges: tuple[tuple[float, float], ...],
    *,
    domain: Interval = REAL,
    range: Interval = REAL,
    gives: Gives = "float",
    tame: bool = False,
    kinks: str = "",
    numpy: str = "",
    plain: str = "",
    triton: str = "",
    c: str = "",
    oracle: str = "",
    in_language: bool = True,
) -> ScalarOp:
    """A function of one number; texts that are not given follow its name."""
    return ScalarOp(
        name=name,
        arity=1,
        gives=gives,
        meaning=meaning,
        domain=(domain,),
        range=range,
        derivative=derivative,
        flat=derivative is None and gives != "float",
        tame=tame or (derivative is None and gives != "float"),
        kinks=kinks,
        numpy=numpy or f"np.{name}({{0}})",
        plain=plain or f"math.{name}({{0}})",
        triton=triton or f"tl.{name}({{0}})",
        c=c or f"{name}{{f}}({{0}})",
        oracle=oracle or f"torch.{name}",
        samples=(samples,),
        edges=tuple(((x,), y) for x, y in edges),
        in_language=in_language,
    )
