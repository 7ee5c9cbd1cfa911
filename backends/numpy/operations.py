"""Scalar operations as NumPy text, from their records."""

from __future__ import annotations

import ast
import re

from dslc.backends.numpy.text import ATOM, COMPARE, PLUS, POWER, TIMES, UNARY

from dslc.ops.table import RECORDS

_LEVELS = {"+": PLUS, "-": PLUS, "*": TIMES, "/": TIMES, "//": TIMES, "%": TIMES}

#: operations between their operands: the symbol, and how tightly it binds
INFIX = {
    name: (m[1], _LEVELS.get(m[1], COMPARE))
    for name, r in RECORDS.items()
    if (m := re.fullmatch(r"\{0\} ([-+*/%<>=!]+) \{1\}", r.numpy)) and m[1] != "**"
}

#: operations that are calls of a function, of NumPy or of the runtime
FUNCTIONS = {
    name: m[1] for name, r in RECORDS.items() if (m := re.fullmatch(r"([\w.]+)\(\{0\}(?:, \{\d\})*\)", r.numpy))
}

_OPERATORS: dict[type, int] = {ast.Pow: POWER, ast.Mult: TIMES, ast.Div: TIMES, ast.Add: PLUS, ast.Sub: PLUS}


def _level(text: str) -> int:
    """How tightly a text binds.

    >>> _level("1 / np.sqrt({0})") == TIMES, _level("np.maximum({0}, 0)") == ATOM
    (True, True)
    """
    node = ast.parse(text.format("x", "y", "z"), mode="eval").body
    if isinstance(node, ast.BinOp):
        return _OPERATORS.get(type(node.op), COMPARE)
    return UNARY if isinstance(node, ast.UnaryOp) else ATOM


#: other texts, and how tightly they bind; `body.py` has cases of its own for some of them
TEMPLATES = {name: (r.numpy, _level(r.numpy)) for name, r in RECORDS.items() if name not in {*INFIX, *FUNCTIONS}}

#: operations on numbers that are known when the module is printed
PLAIN = {name: r.plain for name, r in RECORDS.items()}
