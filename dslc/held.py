"""How many bytes of values a program holds at once, each until its last reader has it.

Arguments of the program count as held by the caller. Values are made in the better one of two orders: as the program is
written, or so that of what a value reads that is made first which takes the most beside what is left of it (Sethi and
Ullman). Tangents then go along with the values that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dslc.cost import BYTES, Counter, settle
from dslc.ir import nodes as ir
from dslc.sizes import Size, estimate


def most_held(results: Iterable[ir.Tensor], dtype: str, sizes: Mapping[str, int]) -> Size:
    """The most bytes at once; sizes that stay open are taken to be equal where they are compared."""
    roots, held = tuple(dict.fromkeys(results)), _Held(Counter(BYTES[dtype]), sizes)
    return min((held.most(order, roots) for order in (ir.schedule(roots), held.frugal(roots))), key=estimate)


class _Held:
    def __init__(self, counter: Counter, sizes: Mapping[str, int]):
        self.counter, self.sizes = counter, sizes

    def frugal(self, roots: Sequence[ir.Node]) -> list[ir.Node]:
        """All nodes, arguments first, those before others that take more bytes on the way than they leave."""
        peak: dict[ir.Node, float] = {}
        below: dict[ir.Node, list[ir.Node]] = {}

        def first(node: ir.Node) -> float:
            return estimate(self.bytes(node)) - peak[node]

        for node in ir.schedule(tuple(roots)):
            below[node] = sorted(ir.arguments(node), key=first)
            held = most = 0.0
            for x in below[node]:
                most = max(most, held + peak[x])
                held += estimate(self.bytes(x))
            peak[node] = max(most, held + estimate(self.bytes(node)))
        done: dict[ir.Node, None] = {}
        stack = [(x, False) for x in sorted(roots, key=first, reverse=True)]
        while stack:
            node, ready = stack.pop()
            if ready:
                done[node] = None
            elif node not in done:
                stack.append((node, True))
                stack += [(x, False) for x in reversed(below[node]) if x not in done]
        return list(done)

    def most(self, order: Sequence[ir.Node], kept: Sequence[ir.Node]) -> Size:
        """The most bytes while these nodes are made in order, when some are kept to the end."""
        last: dict[ir.Node, int] = {}
        for n, node in enumerate(order):
            for x in (node, *ir.arguments(node)):
                last[_memory(x)] = n
        last.update({_memory(x): len(order) for x in kept})
        gone: dict[int, list[ir.Node]] = {}
        for node, n in last.items():
            gone.setdefault(n, []).append(node)
        held: Size = 0
        most: Size = 0
        for n, node in enumerate(order):
            held = held + self.bytes(node)
            at_once = held + self.inside(node)
            if estimate(at_once) > estimate(most):
                most = at_once
            for x in gone.get(n, ()):
                held = held - self.bytes(x)
        return most

    def bytes(self, node: ir.Node) -> Size:
        """What is allocated for a node: none for views, and for several results it is their parts that count."""
        if isinstance(node, ir.Input | ir.Step | ir.Reshape | ir.Along | ir.External) or ir.slice_of_input(node):
            return 0
        return settle(self.counter.bytes(node), self.sizes)

    def inside(self, node: ir.Node) -> Size:
        """What a step of a scan holds beside its results: its values, and those that it carries."""
        if not isinstance(node, ir.Scan):
            return 0
        order = [x for x in ir.inside(node)[0] if not isinstance(x, ir.Step)]
        carried = sum((settle(self.counter.bytes(x), self.sizes) for x in node.carries), 0)
        return carried + self.most(order, (*node.carries, *node.results))


def _memory(node: ir.Node) -> ir.Node:
    """The node whose memory a view shows."""
    while isinstance(node, ir.Reshape):
        node = node.of
    return node
