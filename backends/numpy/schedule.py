"""Which values a statement of a module computes, and how long they live: for `dslc show`."""

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
        if isinstance(node, ir.Scan):
            yield f"{indent}for {ir.counter_of(node)} over {show(node.length)}:{_place(node)}"
            stack += [(x, depth + 1) for x in reversed(low.uses.inside(node))]
        elif isinstance(node, ir.Comp | ir.Scatter) and _has_line(low, node):
            parts = [f"{x.op or 'a formula'}" for x in low.reads(node) if isinstance(x, ir.Comp) and low.inlined(x)]
            inner = f" with {', '.join(sorted(parts))} in its formula" if parts else ""
            yield f"{indent}{_label(node)} [{', '.join(map(show, node.shape))}]{inner}{_place(node)}"


def lifetimes(forward: Sequence[ir.Tensor], backward: Sequence[ir.Tensor]) -> Iterator[str]:
    """A line for each value that has memory: the statement that makes it, the last one that reads it, and whether it is
    saved for the gradient in between. A loop counts as one statement."""
    roots = (*forward, *backward)
    low = Lowering()
    name_lines(roots)
    low.uses = Uses.of(roots)
    own = set(ir.schedule(tuple(forward)))
    order = [x for x in ir.schedule(roots) if x in low.uses.needed and _has_line(low, x)]
    last: dict[ir.Node, int] = {}
    for number, node in enumerate(order):
        last.update(dict.fromkeys(low.reads(node), number))
    for number, node in enumerate(order):
        if isinstance(node, ir.Scan):
            yield f"{number}: a loop over {show(node.length)}{_place(node)}"
            continue
        shape = ", ".join(map(show, getattr(node, "shape", ())))
        until = last.get(node, number)
        end = "a result" if node in low.uses.roots else f"last read by {until} ({_label(order[until])})"
        saved = ", saved for the gradient" if node in own and until < len(order) and order[until] not in own else ""
        yield f"{number}: {_label(node)} [{shape}], {end}{saved}{_place(node)}"


def _has_line(low: Lowering, node: ir.Node) -> bool:
    formula = isinstance(node, ir.Comp) and not low.inlined(node) and not ir.slice_of_input(node)
    return formula or isinstance(node, ir.Scatter | ir.Scan)


def _label(node: ir.Node) -> str:
    return "the loop" if isinstance(node, ir.Scan) else name_of(node) or "a value without a name"


def _place(node: ir.Node) -> str:
    span = getattr(node, "span", NOWHERE)
    return f"  ({span.place})" if span.source.text else ""
