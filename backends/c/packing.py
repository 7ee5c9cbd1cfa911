"""Matrices in panels: packed once before a region runs, or before the loops in which it does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dslc.backends.c.text import factor

from dslc.ir import nodes as ir
from dslc.schedule.form import Product, based
from dslc.sizes import Size

if TYPE_CHECKING:
    from dslc.backends.c.entry import EntryText
    from dslc.backends.c.kernel import Kernel

#: columns of a matrix that are packed at once: a multiple of those of a panel on each processor (32, 16, 12, 8, 6, 4)
PANELS = 96
#: products with at least so many rows have packed matrices
FEW_ROWS = 48
#: with fewer at once, a matrix is read where it is, from end to end, unless it is transposed
FEW_AT_ONCE = 3


@dataclass(frozen=True)
class Pack:
    """A matrix in panels: the name of its field, the call that writes it, how many columns and rows its product has."""

    name: str
    call: str
    columns: Size
    rows: Size
    matrix: ir.Read
    transposed: bool


def packed(kernel: Kernel, product: Product, depth: Size, b: str, bk: str, bj: str) -> str:
    """The name of the right side of a product in panels, where it begins at `b` and has so many rows."""
    entry, node = kernel.entry, product.node
    name = entry.names_of_fields.fresh(f"{entry.wish(product.right.tensor)}_packed")
    ctype, suffix = entry.types.of(node.dtype), entry.types.suffix(node.dtype)
    entry.fields[name] = f"{ctype} *"
    columns, rows = node.shape[product.columns], math.prod(node.shape[: product.columns])
    entry.packed_sizes[name] = (depth, columns, suffix)
    K = factor(kernel.size(depth))
    piece = f"{b} + begin" if bj == "1" else f"{b} + begin * {factor(bj)}"
    call = f"pack{suffix}({K}, end - begin, {piece}, {bk}, {bj}, f->{name} + begin * {factor(K)});"
    entry.packs.append(Pack(name, call, columns, rows, product.right, bj != "1"))
    local = kernel.names.fresh(name)
    kernel.head[local] = f"const {ctype} *{local} = f->{name};"
    return local


def pack_before(entry: EntryText, kernel: Kernel, inner: Kernel) -> None:
    """Pack the matrices of a region whose products have rows enough to gain by that."""
    for pack in entry.packs:
        title = entry.names.fresh(f"{entry.interface.name}_{pack.name}")
        lines = [
            f"static void {title}(void *context, long begin, long end) {{",
            f"    const {entry.frame} *f = context;",
            *inner.declared(pack.call.replace(f"f->{pack.name}", "")),
            f"    {pack.call}",
            "}",
        ]
        entry.functions.append("\n".join(lines))
        left = loops_left(entry, pack.matrix)
        rows = kernel.size(math.prod([pack.rows, *(scan.length for scan, _ in left)]))
        few = f"{kernel.size(pack.rows)} >= {FEW_AT_ONCE} && " if left and not pack.transposed else ""
        found = [
            f"if ({few}{rows} >= {FEW_ROWS}) parallel({title}, &f, {kernel.size(pack.columns)}, {PANELS});",
            f"else f.{pack.name} = NULL;",
        ]
        if left:
            left[0][1].extend(found)
        else:
            for line in found:
                kernel.line(line)


def loops_left(entry: EntryText, matrix: ir.Read) -> list[tuple[ir.Scan, list[str]]]:
    """The innermost loops, as many of them as find the same parameter in all their steps."""
    if not isinstance(based(matrix.tensor), ir.Input):
        return []
    steps = {x.step.scan for x in matrix.places if isinstance(x, ir.At)}
    last = max((k for k, (scan, _) in enumerate(entry.around) if scan.number in steps), default=-1)
    return entry.around[last + 1 :]
