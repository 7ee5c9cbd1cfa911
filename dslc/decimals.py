"""Arithmetic on known numbers as people mean it: those of specs are decimals, and `1 - 0.9` is 0.1."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def fold(op: str, x: float, y: float) -> float:
    """The result of an operation on the decimals that two floats stand for, rounded once.

    >>> fold("-", 1.0, 0.9), fold("*", 3.0, 0.1), fold("/", 1.0, math.inf)
    (0.1, 0.3, 0.0)
    """
    plain: float = OPERATIONS[op](x, y)
    if not all(map(math.isfinite, (x, y, plain))):
        return plain
    return math.copysign(float(OPERATIONS[op](Fraction(repr(x)), Fraction(repr(y)))), plain)


def shortest(value: float, roundings: int) -> float:
    """A number with few digits, where one lies within so many roundings of a value that was computed with them.

    >>> shortest((1 / math.sqrt(2)) ** 2, 3), shortest(1 / math.sqrt(2 * math.pi), 3) == 1 / math.sqrt(2 * math.pi)
    (0.5, True)
    """
    near = float(f"{value:.12g}")
    return near if abs(near - value) <= roundings * math.ulp(value) else value
