"""Reductions as C text: what each begins with, and the statement that takes one more value into it."""

from __future__ import annotations

from dslc.backends.c.kernel import Kernel
from dslc.backends.c.text import bare, factor

from dslc.ir import nodes as ir


def neutral(node: ir.Comp, kernel: Kernel) -> str:
    ctype, whole = kernel.types.of(node.dtype), "INT32" if node.dtype == "i32" else "INT64"
    match node.op:
        case "max":
            return f"{whole}_MIN" if ctype == "int64_t" else "0" if ctype == "uint8_t" else "-INFINITY"
        case "min":
            return f"{whole}_MAX" if ctype == "int64_t" else "1" if ctype == "uint8_t" else "INFINITY"
        case "prod" | "all":
            return "1"
    return "0"


def combined(node: ir.Comp, target: str, text: str, kernel: Kernel) -> str:
    """The statement that takes one more value into a reduction."""
    match node.op:
        case "sum":
            return f"{target} += {bare(text)};"
        case "prod":
            return f"{target} *= {factor(text)};"
        case "any":
            return f"{target} |= {text};"
        case "all":
            return f"{target} &= {text};"
    kind = {"int64_t": "i64", "float": "f32", "double": "f64", "uint8_t": "i64"}[kernel.types.of(node.dtype)]
    return f"{target} = {LARGEST[node.op or '']}_{kind}({target}, {bare(text)});"


#: how loops in vectors take values together
TOGETHER = {"sum": "+", "prod": "*", "any": "|", "all": "&"}
LARGEST = {"max": "largest", "min": "smallest"}
