"""A sum of products as a matrix product: which factors stand on which side, which axes are rows and columns."""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.passes.contract import entries, factors, product

Sides = tuple[ir.Scalar, ir.Scalar, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def is_contraction(node: ir.Comp) -> bool:
    return contraction_sides(node) is not None


def contraction_sides(node: ir.Comp) -> Sides | None:
    """A sum of products as left[batch, rows, inner] * right[batch, inner, columns], where it is one."""
    if node.op != "sum" or node.dtype in ("i32", "i64", "bool"):
        return None
    rank = len(node.shape)
    parts = factors(node.body, rank)
    kept = [frozenset(v for v in f.axes if v < rank) for f in parts]
    wide = max(range(len(parts)), key=lambda k: len(kept[k]))
    left = {wide}
    right = {k for k in range(len(parts)) if not kept[k] <= kept[wide]}
    if not right:
        return None
    right_axes = frozenset().union(*(kept[k] for k in right))
    for k in range(len(parts)):
        if k not in left and k not in right:
            smaller = right if kept[k] <= right_axes and not kept[k] <= kept[wide] else left
            smaller.add(k)
    left_axes = kept[wide]
    rows = tuple(v for v in range(rank) if v in left_axes and v not in right_axes)
    columns = tuple(v for v in range(rank) if v in right_axes and v not in left_axes)
    batch = tuple(v for v in range(rank) if v in left_axes and v in right_axes)
    if not rows or not columns or len(rows) + len(columns) + len(batch) != rank:
        return None
    sides = [product([parts[k] for k in sorted(side)], node.body.dtype) for side in (left, right)]
    if columns[0] < rows[0]:
        return sides[1], sides[0], batch, columns, rows
    return sides[0], sides[1], batch, rows, columns


def inner_order(node: ir.Comp) -> tuple[int, ...]:
    """What a contraction sums over, in the order in which its tensors have it in memory: neighbours are read together.

    The tensor that has most of these axes decides, of several the largest.
    """
    rank = len(node.shape)
    inner = range(rank, rank + len(node.reduced))
    best: tuple[tuple[int, float], tuple[int, ...]] = ((0, 0.0), ())
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read):
            order = tuple(v for place in s.places if (v := plain_variable(place)) is not None and v in inner)
            best = max(best, ((len(order), entries(s.tensor.shape)), order))
    return (*(v for v in inner if v not in best[1]), *dict.fromkeys(best[1]))
