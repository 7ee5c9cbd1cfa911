"""The kernels in the text of a module, for `dslc show`."""

from __future__ import annotations

import ast


def kernels(text: str) -> list[str]:
    """The kernels in the text of a module."""
    lines = text.splitlines()
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(d).startswith("triton.jit") for d in node.decorator_list
        ):
            found.append("\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno]))
    return found
