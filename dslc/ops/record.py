"""What dslc knows about one scalar operation: its record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dslc.ir import algebra as d
from dslc.ir import nodes as ir

#: free: not counted, as comparisons. cheap: about an addition. medium: a division, a root. costly: many of them.
Cost = Literal["free", "cheap", "medium", "costly"]

#: finite arguments for which the result is certainly finite, as far as records tell
FiniteFor = Literal["any", "not negative", "positive", "none"]

#: makes: whole numbers of any. keeps: whole numbers of whole numbers.
Whole = Literal["", "makes", "keeps"]

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

    Texts are formats: `{0}`, `{1}` are the arguments, in C `{f}` is `_f32`, `_f64` or `_i64`, by which functions of the
    runtime are named. NumPy texts may name
    functions of the runtime, Triton texts without `tl.` device functions that the backend defines. A NumPy text has
    each argument once, and not beside an operator: arguments are put in as they are.

    What has a default is what a stage may use if it is so: the default is safe.
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
    cost: Cost
    finite_for: FiniteFor
    numpy: str
    #: on Python numbers that are known when the module is printed
    plain: str
    triton: str
    c: str
    #: what tests compare with: a function of torch, or a text with some
    oracle: str
    #: arguments inside the domain and away from kinks, one tuple for each argument
    samples: tuple[Points, ...]
    #: arguments at the edges of the domain and beyond, and the result there
    edges: tuple[tuple[Points, float], ...]
    #: can be called by name in a spec
    in_language: bool
    #: what it means on float64, as NumPy text; empty: the text for modules does, with the functions of `values.py`
    value: str = ""
    #: its slope takes a few operations once its value is known
    slope_from_value: bool = False
    #: its derivatives are numbers
    linear: bool = False
    #: it chooses a number, changes its sign or makes it whole: the same result however it is computed
    exact: bool = False
    #: positive for positive arguments, and not negative for those that are not
    keeps_sign: bool = False
    whole: Whole = ""


def rule(derivative: Callable[[ir.Scalar, ir.Scalar], ir.Scalar]) -> Rule:
    """The rule of f(x), with f'(x) given from x and the result y."""
    return lambda y, a: (d.mul(a, derivative(y.args[0], y)),)


def finite_for(tame: bool, range: Interval) -> FiniteFor:
    """For which arguments a result is finite, if nothing more is known about it."""
    return "any" if tame or all(map(math.isfinite, range)) else "none"


def function(
    name: str,
    meaning: str,
    derivative: Rule | None,
    samples: Points,
    edges: tuple[tuple[float, float], ...],
    *,
    cost: Cost,
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
    finite: FiniteFor | None = None,
    in_language: bool = True,
    slope_from_value: bool = False,
    linear: bool = False,
    exact: bool = False,
    keeps_sign: bool = False,
    whole: Whole = "",
) -> ScalarOp:
    """A function of one number; texts that are not given follow its name."""
    flat = derivative is None and gives != "float"
    return ScalarOp(
        name=name,
        arity=1,
        gives=gives,
        meaning=meaning,
        domain=(domain,),
        range=range,
        derivative=derivative,
        flat=flat,
        tame=tame or flat,
        kinks=kinks,
        cost=cost,
        finite_for=finite or finite_for(tame or flat, range),
        numpy=numpy or f"np.{name}({{0}})",
        plain=plain or f"math.{name}({{0}})",
        triton=triton or f"tl.{name}({{0}})",
        c=c or f"{name}{{f}}({{0}})",
        oracle=oracle or f"torch.{name}",
        samples=(samples,),
        edges=tuple(((x,), y) for x, y in edges),
        in_language=in_language,
        slope_from_value=slope_from_value,
        linear=linear,
        exact=exact,
        keeps_sign=keeps_sign,
        whole=whole,
    )
