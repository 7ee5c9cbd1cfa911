"""Which comprehensions are matrix products of tensors as they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.dtypes import alike, is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, identity
from dslc.ops.table import COSTLY
from dslc.passes.sides import contraction_sides
from dslc.schedule.form import Gathered, Product
from dslc.sizes import Size, about, estimate, strides


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


def product_of(node: ir.Node) -> Product | Gathered | None:
    """A comprehension as a matrix product, where it is one that is worth it."""
    if not isinstance(node, ir.Comp) or not is_float(node.dtype):
        return None
    sides = contraction_sides(node)
    if sides is None:
        return None
    left, right, batch, rows, columns = sides
    last = len(node.shape) - 1
    if last in rows:
        left, right, rows, columns = right, left, columns, rows
    if last not in columns or not rows:
        return None
    if isinstance(left, ir.Read) and isinstance(right, ir.Read):
        if all(is_strided(x) and alike(x.dtype, node.dtype) and not of_layers(x) for x in (left, right)):
            return Product(node, left, right, max(rows), last)
    return gathered(node, left, right, batch, rows, columns)


def of_layers(read: ir.Read) -> bool:
    """Does a read take the parameters of more layers than one? They do not lie side by side."""
    return isinstance(read.tensor, ir.Input) and "*" in read.tensor.name and not isinstance(read.places[0], ir.At)


#: a side that is written as a whole has at most about so many entries
MOST_WRITTEN = 2**21
#: sums of fewer products are not worth it, nor is one column
FEWEST = 4


def gathered(
    node: ir.Comp, left: ir.Scalar, right: ir.Scalar, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Gathered | None:
    """A product one side of which is a formula: its first axes are rows, of which the right side knows nothing."""
    rank = len(node.shape)
    if batch or list(rows) != list(range(len(rows))) or list(columns) != list(range(len(rows), rank)):
        return None
    if any(isinstance(s, ir.Rand) for side in (left, right) for s in ir.scalars(side)):
        return None
    if any(isinstance(s, ir.Op) and s.name in COSTLY for s in ir.scalars(left)):
        return None  # computed again for each piece
    inner: tuple[int, ...] = tuple(range(rank, rank + len(node.reduced)))
    sums, wide = about(node.reduced), about([node.shape[v] for v in columns])
    if sums < FEWEST or wide < 2 or sums * wide < FEWEST * FEWEST:
        return None
    strided = is_strided(right) and isinstance(right, ir.Read) and alike(right.dtype, node.dtype)
    if not strided and sums * wide > MOST_WRITTEN:
        return None
    reads = [s for side in (left, right) for s in ir.scalars(side) if isinstance(s, ir.Read) and s.places]
    if any(of_layers(s) for s in reads):
        return None

    def apart(v: int) -> tuple[float, ...]:
        return tuple(-abs(estimate(stride(s, v))) for s in reads if s.outside is not None or is_strided(s))

    inner = tuple(sorted(inner, key=lambda v: (apart(v), v)))
    if isinstance(left, ir.Read):  # all axes of a window lead on in memory
        sizes = dict(enumerate(node.reduced, rank))
        back = {v: Form(((v, -1),), sizes[v] - 1) for v in inner if estimate(stride(left, v)) < 0}
        change = Change(identity(rank + len(node.reduced)) | back)
        left, right = change.scalar(left), change.scalar(right)
    return Gathered(node, left, right, max(rows), inner, one_piece(node, left, max(rows), inner))


def one_piece(node: ir.Comp, left: ir.Scalar, last: int, inner: Sequence[int]) -> tuple[int, ...]:
    """The last of the summed variables, as far as they run through one piece of memory.

    None where the left side is no array, or where it cannot be said which rows along the axis `last` lie inside of it.
    """
    if not isinstance(left, ir.Read) or not alike(left.dtype, node.dtype) or stride(left, inner[-1]) != 1:
        return ()
    along = 0
    for place in left.places:
        if isinstance(place, ir.At) and (place.offset == 0 or left.outside is None):
            continue
        if not isinstance(place, ir.Affine) or place.mode != "inside" or place.divisor != 1:
            return ()
        rows = [n for n, _ in place.terms if n <= last]
        step = dict(place.terms).get(last, 1)
        along += last in rows
        if along > 1 or (last in rows and len(rows) > 1) or not isinstance(step, int) or step < 1:
            return ()
    block = [inner[-1]]
    for v in reversed(inner[:-1]):
        if stride(left, v) != stride(left, block[0]) * node.reduced[block[0] - len(node.shape)]:
            break
        block.insert(0, v)
    return tuple(block)
