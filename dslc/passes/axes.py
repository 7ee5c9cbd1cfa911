"""The order of axes of what is computed on the way: that in which its formula meets them.

An author may write score[s, t, h, n] or score[n, h, t, s]. Tiles and statistics of their rows take the order of the
tensors that they are made of, so that both are the same kernels, and rows that are neighbours stay neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep
from dslc.passes.contract import appearance
from dslc.passes.tiles import Roles, candidates, joint_roles
from dslc.passes.transform import Outputs, Transform, everything


class Ordered(Transform):
    """A graph in which tiles, and statistics of their rows, have their axes in the order of appearance."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        order = everything(outputs)
        fixed: set[ir.Node] = set(outputs.values())
        for node in order:
            if not isinstance(node, ir.Comp):
                fixed.update(ir.arguments(node))
            if isinstance(node, ir.Scan):
                fixed.update((*node.carries, *node.results, *node.starts))
        self.free = {x for x in made_of_tiles(order) if x not in fixed}
        #: for each axis of the new tensor, the axis that it was
        self.axes: dict[ir.Node, list[int]] = {}

    def _one(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp):
            return super()._one(node)
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            new = ir.rebuild(s, lambda x: done[x], self.known)
            if isinstance(s, ir.Read) and isinstance(new, ir.Read) and s.tensor in self.axes:
                places = tuple(new.places[v] for v in self.axes[s.tensor])
                new = ir.intern(ir.Read(new.tensor, places, new.dtype, new.outside))
            done[s] = new
        body, rank = done[node.body], len(node.shape)
        shape = node.shape
        if node in self.free:
            reads = [s for s in ir.scalars(body) if isinstance(s, ir.Read)]
            seen = [v for v in appearance(reads) if v < rank]
            axes = [*seen, *(v for v in range(rank) if v not in seen)]
            if axes != list(range(rank)):
                self.axes[node] = axes
                shape = tuple(shape[v] for v in axes)
                forms = {v: keep(k) for k, v in enumerate(axes)}
                forms |= {v: keep(v) for v in range(rank, rank + len(node.reduced))}
                body = Change(forms).scalar(body)
        return ir.comp(shape, body, node.op, node.reduced, node.name, node.span, node.dtype)


def made_of_tiles(order: Sequence[ir.Node]) -> set[ir.Node]:
    """Tiles, their maps, statistics of their rows, and the maps of these."""
    tiles = candidates(order)
    found: set[ir.Node] = set(tiles)
    for node in order:
        if isinstance(node, ir.Comp) and node not in found:
            if node.op is not None:
                made = is_statistic(node, tiles)
            else:
                reads = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read) and s.tensor.shape]
                made = bool(reads) and all(x in found for x in reads)
            if made:
                found.add(node)
    return found


def is_statistic(node: ir.Comp, tiles: dict[ir.Node, Roles]) -> bool:
    """A reduction of tiles that has no axis but theirs."""
    if joint_roles(node, tiles) is None:
        return False
    reads = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read) and s.tensor in tiles]
    return {v for s in reads for v in appearance([s])} >= set(range(len(node.shape)))


def ordered(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Ordered(outputs).outputs(outputs)
