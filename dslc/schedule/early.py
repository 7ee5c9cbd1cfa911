"""Reductions to less than they read come as soon as they are the last to read it, so that it is not kept for them.

So the gradient of a weight is computed right behind the adjoint that it reads, and not at the end of a step, when the
adjoints of all weights would be there.
"""

from __future__ import annotations

from collections.abc import Iterable

from dslc.ir import nodes as ir
from dslc.sizes import about


def early_reductions(order: Iterable[ir.Node]) -> list[ir.Node]:
    """Nodes in an order in which such reductions come as soon as they are the last to read a value."""
    order = list(order)
    own = set(order)
    waits = {node: dict.fromkeys(a for a in ir.arguments(node) if a in own) for node in order}
    readers: dict[ir.Node, list[ir.Node]] = {}
    for node in order:
        for a in waits[node]:
            readers.setdefault(a, []).append(node)
    below = {node: [*waits[node]] for node in order}
    done: dict[ir.Node, None] = {}

    def may_come(node: ir.Node) -> bool:
        return node not in done and not waits[node] and shrinks(node)

    for node in order:
        stack = [node]
        while stack:
            x = stack.pop()
            if x in done:
                continue
            done[x] = None
            for reader in readers.get(x, []):
                waits[reader].pop(x, None)
            beside = [reader for a in below[x] for reader in readers[a]]
            for reader in dict.fromkeys([*reversed(beside), *reversed(readers.get(x, []))]):
                if may_come(reader) and any(
                    larger(a, reader) and all(u in done or may_come(u) for u in readers[a]) for a in below[reader]
                ):
                    stack.append(reader)
    return list(done)


def shrinks(node: ir.Node) -> bool:
    """Is a node a reduction to fewer entries than a value that it reads has?"""
    return isinstance(node, ir.Comp) and node.op is not None and any(larger(a, node) for a in ir.arguments(node))


def larger(value: ir.Node, node: ir.Node) -> bool:
    """Has a value that is computed more entries than a node?"""
    if isinstance(value, ir.Step | ir.Input):
        return False
    return about(node.shape) < about(getattr(value, "shape", ()))  # type: ignore[union-attr]
