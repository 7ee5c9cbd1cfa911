"""Derivatives of scalar operations, from their records: adjoints of the arguments from the adjoint of the result.

Kinks follow the table in docs/language.md: relu'(0) = abs'(0) = sign' = 0, ties of max and min split evenly.
A branch of a select that is not taken gets exactly zero.
"""

from __future__ import annotations

from dslc.ir.algebra import (
    add,
    call,
    cast,
    choose,
    compare,
    div,
    is_one,
    is_zero,
    mul,
    neg,
    number,
    sub,
    where,
)  # fmt: skip
from dslc.ops.record import Adjoints, Rule
from dslc.ops.table import RECORDS

__all__ = [
    "FLAT", "RULES", "Adjoints", "Rule", "add", "call", "cast", "choose", "compare", "div", "is_one", "is_zero", "mul",
    "neg", "number", "sub", "where",
]  # fmt: skip

RULES: dict[str, Rule] = {name: r.derivative for name, r in RECORDS.items() if r.derivative is not None}

#: operations whose results do not vary with their arguments, or are no floats
FLAT = frozenset(name for name, r in RECORDS.items() if r.flat)
