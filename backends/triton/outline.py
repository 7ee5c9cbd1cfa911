"""The kernels in the text of a module, for `dslc show`."""

from __future__ import annotations

import ast

from dslc.backends.triton.resources import is_kernel


def kernels(text: str) -> list[str]:
    """The kernels in the text of a module."""
    lines = text.splitlines()
    found = [x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef) and is_kernel(x)]
    return ["\n".join(lines[x.decorator_list[0].lineno - 1 : x.end_lineno]) for x in found]
