"""Matrices in panels: packed once before a region runs, or before the loops in which it does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dslc.ir import nodes as ir
from dslc.schedule.form import Product, based
from dslc.sizes import Size

if TYPE_CHECKING:
    from dslc.backends.c.entry import EntryText
    from dslc.backends.c.kernel import Kernel

#: products with at least so many rows have packed matrices
FEW_ROWS = 48
#: with fewer at once, a matrix is read where it is, from end to end, unless it is transposed
FEW_AT_ONCE = 3


@dataclass(frozen=True)
class Pack:
    """A matrix in panels: the name of its field, its rows, what they and its columns are apart, and its product."""

    name: str
    depth: Size
    apart: tuple[Size, Size]
    product: Product

    @property
    def columns(self) -> Size:
        return self.product.node.shape[self.product.columns]

    @property
    def rows(self) -> Size:
        """How many rows its product has."""
        return math.prod(self.product.node.shape[: self.product.columns])


def packed(kernel: Kernel, product: Product, depth: Size, apart: tuple[Size, Size]) -> str:
    """The name of the right side of a product in panels."""
    entry, node = kernel.entry, product.node
    name = entry.names_of_fields.fresh(f"{entry.wish(product.right.tensor)}_packed")
    ctype, suffix = entry.types.of(node.dtype), entry.types.suffix(node.dtype)
    entry.fields[name] = f"{ctype} *"
    entry.packed_sizes[name] = (depth, node.shape[product.columns], suffix)
    entry.packs.append(Pack(name, depth, apart, product))
    local = kernel.names.fresh(name)
    kernel.head[local] = f"const {ctype} *{local} = f->{name};"
    return local


def pack_before(entry: EntryText, kernel: Kernel) -> None:
    """Pack the matrices of a region whose products have rows enough to gain by that."""
    for pack in entry.packs:
        matrix = pack.product.right
        left = loops_left(entry, matrix)
        rows = kernel.size(math.prod([pack.rows, *(scan.length for scan, _ in left)]))
        enough = f"{rows} >= {FEW_ROWS}"
        if left and pack.apart[1] == 1:
            enough = f"{kernel.size(pack.rows)} >= {FEW_AT_ONCE} && {enough}"
        sizes = [kernel.size(x) for x in (pack.depth, pack.columns)]
        given = [enough, *sizes, beginning(entry, kernel, matrix), *map(kernel.size, pack.apart), f"f.{pack.name}"]
        suffix = entry.types.suffix(pack.product.node.dtype)
        line = f"f.{pack.name} = packed{suffix}({', '.join(given)});"
        if left:
            left[0][1].append(line)
        else:
            kernel.line(line)


def beginning(entry: EntryText, kernel: Kernel, matrix: ir.Read) -> str:
    """Where a matrix begins, as the body of an entry reaches it."""
    outside = entry.outside(kernel)
    table = entry.table_axes(matrix.tensor)
    positions = [
        outside.counter(x.step) + (f" + {outside.size(x.offset)}" if x.offset != 0 else "")
        if isinstance(x, ir.At)
        else outside.size(x.offset)  # type: ignore[union-attr]
        for x in matrix.places
    ]
    shape = matrix.tensor.shape
    if table:
        text = f"{entry.table_address(matrix.tensor, outside)}[{outside.offset(shape[:table], positions[:table])}]"
    else:
        text = entry.address(based(matrix.tensor), outside)
    at = outside.offset(shape[table:], positions[table:])
    return text if at == "0" else f"{text} + {at}"


def loops_left(entry: EntryText, matrix: ir.Read) -> list[tuple[ir.Scan, list[str]]]:
    """The innermost loops, as many of them as find the same parameter in all their steps."""
    if not isinstance(based(matrix.tensor), ir.Input):
        return []
    steps = {x.step.scan for x in matrix.places if isinstance(x, ir.At)}
    last = max((k for k, (scan, _) in enumerate(entry.around) if scan.number in steps), default=-1)
    return entry.around[last + 1 :]
