"""Which comprehensions are matrix products of tensors as they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.dtypes import alike, is_float
from dslc.ir import nodes as ir
from dslc.kernels.sides import contraction_sides
from dslc.schedule.form import Product
from dslc.sizes import Size


def strides(shape: Sequence[Size]) -> list[Size]:
    """How far apart neighbours along each axis lie, in row-major order.

    >>> strides((2, 3, 4))
    [12, 4, 1]
    """
    found: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        found.append(step)
        step = step * size
    return found[::-1]


def is_strided(s: ir.Scalar) -> bool:
    """Is it a read whose place in memory is linear in its variables, and never outside?"""
    return (
        isinstance(s, ir.Read)
        and s.outside is None
        and all(
            isinstance(x, ir.At) or (isinstance(x, ir.Affine) and x.mode == "inside" and x.divisor == 1)
            for x in s.places
        )
    )


def stride(read: ir.Read, variable: int) -> Size:
    """How far the place of a read moves in memory with a variable."""
    total: Size = 0
    for place, step in zip(read.places, strides(read.tensor.shape), strict=True):
        if isinstance(place, ir.Affine):
            total = total + sum((c * step for n, c in place.terms if n == variable), start=0)
    return total


def product_of(node: ir.Node) -> Product | None:
    """A comprehension as a matrix product, where it is one."""
    if not isinstance(node, ir.Comp) or not is_float(node.dtype):
        return None
    sides = contraction_sides(node)
    if sides is None:
        return None
    left, right, _, rows, columns = sides
    for side in (left, right):
        if not is_strided(side) or not isinstance(side, ir.Read) or not alike(side.dtype, node.dtype):
            return None
        if isinstance(side.tensor, ir.Input) and "*" in side.tensor.name and not isinstance(side.places[0], ir.At):
            return None  # the parameters of all layers do not lie side by side
    assert isinstance(left, ir.Read) and isinstance(right, ir.Read)
    last = len(node.shape) - 1
    if last in rows:
        left, right, rows, columns = right, left, columns, rows
    if last not in columns or not rows:
        return None
    return Product(node, left, right, max(rows), last)
