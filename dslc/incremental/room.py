"""Histories in arrays that have room for more positions than there are so far.

What grows such an entry is an External with the name of the entry, which only backends with steps know: it puts the
newest element into the entry. What reads the entry comes after it, and reads the part that is filled.
"""

from __future__ import annotations

from collections.abc import Sequence

from dslc.incremental.cache import Slot, is_entry, newest
from dslc.ir import nodes as ir
from dslc.passes.transform import Transform
from dslc.sizes import Symbol


class Grown(Transform):
    """Values of all positions so far as the filled part of an entry that has room for more."""

    def __init__(self, slots: Sequence[Slot], length: Symbol, room: Symbol):
        super().__init__()
        self.slots = {x.input: x for x in slots if x.kind == "history"}
        self.length, self.room = length, room

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Scatter) or node.base is None or not is_entry(node.base):
            return node
        entry = node.base
        if isinstance(entry, ir.Comp):
            assert isinstance(entry.body, ir.Read)
            entry = entry.body.tensor
        assert isinstance(entry, ir.Input)
        axis, _ = newest(node)
        shape = (*node.shape[:axis], self.room, *node.shape[axis + 1 :])
        element = ir.comp(node.ranges, node.body, name=node.name.removesuffix("_seen"), span=node.span)
        grown = ir.External(self.slots[entry].input.name, (element,), 0, (shape,), (node.dtype,), node.name, node.span)
        whole = ir.intern(ir.Part(ir.intern(grown), 0, node.dtype, shape, node.name, node.span))
        filled = ir.read(whole, tuple(ir.plain(i) for i in range(len(shape))))
        return ir.comp(node.shape, filled, name=node.name, span=node.span)
