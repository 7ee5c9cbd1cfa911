"""What the kernels of a module compute together, and their texts, for `dslc show`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dslc.backends.triton.prepare import prepared

from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.schedule.form import Kernel, Loop, Step
from dslc.sizes import show as show_size
from dslc.source import NOWHERE, Span


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


def fused(roots: Sequence[ir.Tensor], dtype: str) -> Iterator[str]:
    """A line for each kernel: its kind, its sizes, what it stores and by way of what."""
    _, steps = prepared({str(k): x for k, x in enumerate(roots)}, dtype)
    stack: list[tuple[Step, int]] = [(x, 0) for x in reversed(steps)]
    while stack:
        step, depth = stack.pop()
        indent = "    " * depth
        if isinstance(step, Loop):
            yield f"{indent}loop over {show_size(step.scan.length)}{_where(step.scan.span)}"
            stack += [(x, depth + 1) for x in reversed(step.steps)]
        elif isinstance(step, Kernel):
            sizes = ", ".join(map(show_size, step.sizes))
            stored = {_label(x) for x in step.stored}
            inner = [x for x in dict.fromkeys(map(_label, step.members)) if x not in stored]
            rest = f" by way of {', '.join(inner)}" if inner else ""
            places = dict.fromkeys(_where(getattr(x, "span", NOWHERE)).strip(" ()") for x in step.members)
            lines = ", ".join(x for x in places if x)
            yield f"{indent}{step.kind} [{sizes}]: {', '.join(sorted(stored))}{rest}" + (
                f"  ({lines})" if lines else ""
            )
        else:
            node = step.node
            yield f"{indent}{type(node).__name__.lower()}: {_label(node)}{_where(getattr(node, 'span', NOWHERE))}"


def _label(node: ir.Node) -> str:
    return name_of(node) or "a value without a name"


def _where(span: Span) -> str:
    return f"  ({span.place})" if span.source.text else ""
