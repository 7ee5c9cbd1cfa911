"""Which values a statement of a module computes: one of its own, and those that are parts of its formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dslc.backends.numpy.lower import Uses
from dslc.backends.numpy.statement import Lowering

from dslc.ir import nodes as ir
from dslc.ir.naming import name_lines, name_of
from dslc.sizes import show
from dslc.source import NOWHERE


def shown(roots: Sequence[ir.Tensor]) -> Iterator[str]:
    """A line for each statement: its value, what is part of its formula, and the lines of the spec."""
    low = Lowering()
    name_lines(roots)
    low.uses = Uses.of(roots)
    stack: list[tuple[ir.Node, int]] = [(x, 0) for x in reversed(ir.schedule(tuple(roots))) if x in low.uses.needed]
    while stack:
        node, depth = stack.pop()
        indent = "    " * depth
        span = getattr(node, "span", NOWHERE)
        place = f"  ({span.place})" if span.source.text else ""
        if isinstance(node, ir.Scan):
            yield f"{indent}for {ir.counter_of(node)} over {show(node.length)}:{place}"
            stack += [(x, depth + 1) for x in reversed(low.uses.inside(node))]
        elif isinstance(node, ir.Comp | ir.Scatter) and not low.inlined(node) and not ir.slice_of_input(node):
            parts = [f"{x.op or 'a formula'}" for x in low.reads(node) if isinstance(x, ir.Comp) and low.inlined(x)]
            inner = f" with {', '.join(sorted(parts))} in its formula" if parts else ""
            name, shape = name_of(node) or "a value without a name", ", ".join(map(show, node.shape))
            yield f"{indent}{name} [{shape}]{inner}{place}"
