"""Scalars that the host computes: initial values, hyper-parameters, corrections that depend on the step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from dslc.backends.record import CannotLower
from dslc.backends.triton.scalars import folded
from dslc.backends.triton.text import size_code

from dslc.ir import nodes as ir
from dslc.ops.table import RECORDS

INFIX = {"+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"}
#: texts on Python numbers; arguments are in parentheses already, where they need some
FORMS = {
    name: re.sub(r"(?<![\w.])\(\{(\d)\}\)", r"{\1}", r.plain)
    for name, r in RECORDS.items()
    if name not in INFIX and not re.search(r"\b(np|float)\b", r.plain)
} | {"neg": "-{0}", "square": "{0} * {0}", "cast": "{0}"}  # fmt: skip


def number(root: ir.Scalar, names: Mapping[ir.Node, str], node: ir.Node) -> str:
    """A scalar as a Python expression of plain numbers."""
    done: dict[ir.Scalar, str] = {}
    for s in ir.scalars(root):
        done[s] = _one(s, done, names, node)
    text = done[root]
    return text[1:-1] if text.startswith("(") and _closes(text) else text


def text_of(value: float) -> str:
    """A known number as Python text.

    >>> text_of(-math.inf), text_of(0.5)
    ('-math.inf', '0.5')
    """
    return (
        repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}math.{'nan' if value != value else 'inf'}"
    )


def _closes(text: str) -> bool:
    """Is the whole text in one pair of parentheses?"""
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return k == len(text) - 1
    return False


def _one(s: ir.Scalar, done: Mapping[ir.Scalar, str], names: Mapping[ir.Node, str], node: ir.Node) -> str:
    match s:
        case ir.Const():
            return text_of(s.value)
        case ir.SizeOf():
            return f"({size_code(s.size)})"
        case ir.Read() if not s.places and s.tensor in names:
            return names[s.tensor]
        case ir.Op():
            fold = folded(s, list(s.args))
            if fold is not None:
                return text_of(fold.value)
            args = [done[a] for a in s.args]
            if s.name in INFIX:
                return f"({f' {s.name} '.join(args)})"
            if s.name in FORMS:
                text = FORMS[s.name].format(*args)
                return text if text.endswith(")") or text.isidentifier() else f"({text})"
    raise CannotLower("a number that the host cannot compute", node)
