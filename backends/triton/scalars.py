"""Scalar operations as Triton text: one entry each."""

from __future__ import annotations

import math
import re

from dslc.backends.triton.text import ATOM, BIT, COMPARE, PLUS, TIMES, UNARY

from dslc.ir import nodes as ir
from dslc.meaning.interpret import apply

#: operators: symbol, strength, strength that the right side needs
INFIX = {
    "+": ("+", PLUS, PLUS), "-": ("-", PLUS, TIMES), "*": ("*", TIMES, UNARY), "/": ("/", TIMES, UNARY),
    "<": ("<", COMPARE, BIT), "<=": ("<=", COMPARE, BIT), ">": (">", COMPARE, BIT), ">=": (">=", COMPARE, BIT),
    "==": ("==", COMPARE, BIT), "!=": ("!=", COMPARE, BIT),
}  # fmt: skip

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")

#: device functions that texts of operations may name
DEVICE = frozenset({
    "acos", "acosh", "as_bf16", "as_f16", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "digamma", "draw", "erfc",
    "erfcx", "erfinv", "expm1", "hypot", "larger", "lgamma", "log1p", "maximum", "minimum", "multiplied", "power",
    "round_even", "sinh", "smaller", "softplus", "tanh", "then", "then_pair", "trigamma", "zeta",
})  # fmt: skip


def call(template: str) -> bool:
    """Is a text one call of a function on the arguments as they are?"""
    return re.fullmatch(r"[\w.]+\(\{0\}(, \{\d\})*(, \w+=[\w.]+)*\)", template) is not None


def constant(value: float | int | bool, as_float: bool) -> tuple[str, int]:
    """A number as text, and how strongly it binds."""
    if isinstance(value, bool):
        if as_float:
            return ("1.0", ATOM) if value else ("0.0", ATOM)
        return str(value), ATOM
    if as_float:
        value = float(value)
        if math.isnan(value):
            return 'float("nan")', ATOM
        if math.isinf(value):
            return ('float("inf")', ATOM) if value > 0 else ('float("-inf")', ATOM)
    return repr(value), ATOM if value >= 0 else UNARY


def folded(s: ir.Op, args: list[ir.Scalar]) -> ir.Const | None:
    """The value of an operation on constants."""
    if not all(isinstance(a, ir.Const) for a in args) or (s.name == "cast" and s.dtype in ("f16", "bf16")):
        return None
    try:
        value = apply(s.name, [a.value for a in args if isinstance(a, ir.Const)], s.dtype).item()
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return ir.const(value, s.dtype)
