"""A matrix product of two arrays as they lie in memory as C text: a call for a piece of its rows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslc.backends.c.formula import Formula
from dslc.backends.c.indices import LETTERS, index_wishes
from dslc.backends.c.packing import packed
from dslc.backends.c.text import factor, without_zeros

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.schedule.form import Product
from dslc.schedule.products import stride
from dslc.sizes import Size, estimate, strides

if TYPE_CHECKING:
    from dslc.backends.c.region import RegionText

    from dslc.schedule.vanish import Triangle

#: matrices of so many entries are packed for products with many rows
PACKED = 4096
#: rows of a triangle that are multiplied at once
TILE_ROWS = 32


class ProductText:
    """A matrix product for a piece of the rows of a region."""

    def __init__(self, region: RegionText, product: Product) -> None:
        self.region = region
        self.kernel = region.kernel
        self.product = product
        self.node = product.node
        self.depth = region.depth
        self.names: dict[int, str] = {}

    def write(self) -> None:
        kernel, product, node, region = self.kernel, self.product, self.node, self.region
        kernel.comment(node.span)
        rank = len(node.shape)
        sizes = (*node.shape, *node.reduced)
        whole = product.rows + 1 == self.depth  # the rows are the last of the parallel axes
        wishes = index_wishes([node])
        opened = 0
        names = dict(region.names)
        start, count = "0", kernel.size(sizes[product.rows])
        if whole and self.uniform():
            start, count = region.first, f"{region.end} - {region.first}"
            names = dict.fromkeys(range(self.depth), "")
        elif whole:
            # rows that belong to one place of all axes before
            extent = factor(kernel.size(sizes[product.rows]))
            at, rows = kernel.names.fresh("row"), kernel.names.fresh("rows")
            kernel.open(f"for (long {at} = {region.first}, {rows}; {at} < {region.end}; {at} += {rows}) {{")
            opened += 1
            first = kernel.names.fresh(names[product.rows] + "_first")
            kernel.line(f"const long {first} = {at} % {extent};")
            rest = f"{at} / {extent}"
            for k in reversed(range(1, self.depth - 1)):
                size = factor(kernel.size(sizes[k]))
                names[k] = kernel.names.fresh(names[k])
                kernel.line(f"const long {names[k]} = {rest} % {size};")
                rest = f"{rest} / {size}"
            names[0] = kernel.names.fresh(names[0])
            kernel.line(f"const long {names[0]} = {rest};")
            kernel.line(
                f"{rows} = {extent} - {first} < {region.end} - {at} ? {extent} - {first} : {region.end} - {at};"
            )
            start, count = first, rows
        elif self.depth:
            kernel.open(f"for (long {region.row} = {region.first}; {region.row} < {region.end}; {region.row}++) {{")
            opened += 1
            for _, line in region.indices():
                kernel.line(line)
        outer = [k for k in range(self.depth, rank) if k not in (product.rows, product.columns)]
        block, sums = self.inner()
        for k in outer:
            names[k] = kernel.names.fresh(wishes.get(k, "o"), *LETTERS)
            kernel.open(f"for (long {names[k]} = 0; {names[k]} < {kernel.size(sizes[k])}; {names[k]}++) {{")
            opened += 1
        for k in sums:
            names[k] = kernel.names.fresh(*LETTERS)
            kernel.open(f"for (long {names[k]} = 0; {names[k]} < {kernel.size(sizes[k])}; {names[k]}++) {{")
            opened += 1
        names |= dict.fromkeys(block, "0")
        N, K = kernel.size(sizes[product.columns]), factor(kernel.size(self.extent(block)))
        if region.triangle is not None and not sums:
            found = self.on_triangle(region.triangle, start, count, N, K, block)
            if found is not None:
                start, count, N, K, names[block[0]] = found
                opened += 1
        names[product.rows] = start
        names[product.columns] = "0"
        suffix = kernel.types.suffix(node.dtype)
        accumulate = " || ".join(f"{names[k]} > 0" for k in sums) or "0"
        a, b = self.at(product.left, names), self.at(product.right, names)
        c = self.result(names)
        ai = kernel.size(stride(product.left, product.rows))
        ak = kernel.size(stride(product.left, block[-1]))
        bk = kernel.size(stride(product.right, block[-1]))
        bj = kernel.size(stride(product.right, product.columns))
        ci = kernel.size(self.own_stride(product.rows))
        sides = f"{count}, {N}, {K}, {a}, {ai}, {ak}"
        end = f"{c}, {ci}, {accumulate});"
        b_strides = f"{bk}, {bj}" if bj != "1" else bk
        name, given = f"gemm{'' if bj == '1' else '_bt'}", f"{sides}, {b}, {b_strides}"
        large = estimate(sizes[product.columns]) * estimate(self.extent(block)) >= PACKED
        if self.same_for_all(outer, sums) and ai != "1" and (large or bj != "1"):
            apart = stride(product.right, block[-1]), stride(product.right, product.columns)
            matrix = packed(kernel, product, self.extent(block), apart)
            name, given = f"{name}_maybe_packed", f"{given}, {matrix}"
        kernel.line(f"{name}{suffix}({given}, {end}")
        for _ in range(opened):
            kernel.close()

    def on_triangle(
        self, triangle: Triangle, start: str, count: str, N: str, K: str, block: Sequence[int]
    ) -> tuple[str, str, str, str, str] | None:
        """A loop over tiles of rows, where one of the matrices is needed below its diagonal alone.

        The first row, the number of rows and columns, and what is summed, from where on, in a tile.
        """
        kernel, left = self.kernel, self.product.left
        if self.node not in triangle.members and left.tensor not in triangle.members:
            return None
        at, rows, end = (kernel.names.fresh(x) for x in ("tile", "rows", "end"))
        tile = TILE_ROWS
        last = count if start == "0" else f"{start} + {count}"
        kernel.open(f"for (long {at} = {start}, {rows}, {end}; {at} < {last}; {at} += {rows}) {{")
        kernel.line(f"{end} = {at} / {tile} * {tile} + {tile};")
        kernel.line(f"{rows} = min_size({end}, {last}) - {at};")
        if self.node in triangle.members:
            return at, rows, f"min_size({N}, {end})", K, "0"
        if plain_variable(left.places[triangle.row]) == self.product.rows:
            return at, rows, N, f"min_size({K}, {end})", "0"
        return at, rows, N, f"({K} - ({end} - {tile}))", f"({end} - {tile})"

    def same_for_all(self, outer: Sequence[int], sums: Sequence[int]) -> bool:
        """Is the right side one matrix, wherever the product stands?"""
        moved = [*range(self.depth), *outer, *sums]
        return self.depth > 0 and all(stride(self.product.right, k) == 0 for k in moved if k != self.product.rows)

    def uniform(self) -> bool:
        """Do all rows of the parallel axes, flattened, lie equally far apart, and share the other side?"""
        product, node = self.product, self.node
        if self.depth == 1:
            return True
        for k in range(self.depth - 1):
            if stride(product.right, k) != 0:
                return False
            if stride(product.left, k) != stride(product.left, k + 1) * node.shape[k + 1]:
                return False
        return not any(stride(product.left, k) == 0 and node.shape[k] != 1 for k in range(self.depth))

    def inner(self) -> tuple[list[int], list[int]]:
        """The summed variables that are one axis of the product, outer first, and those that are loops around it.

        Axes that lie one inside of the other in both sides are one axis: (n, t) of x[n, t, i] and y[n, t, o].
        """
        rank = len(self.node.shape)
        found = list(range(rank, rank + len(self.node.reduced)))
        blocks = [self.merged(v, found) for v in found]
        best = min(
            blocks,
            key=lambda block: (
                -min(estimate(self.extent(block)), 512),
                estimate(stride(self.product.left, block[-1])),
                estimate(stride(self.product.right, block[-1])),
            ),
        )
        return best, [v for v in found if v not in best]

    def merged(self, variable: int, others: Sequence[int]) -> list[int]:
        """A summed variable with those that it lies in."""
        block = [variable]
        while True:
            size = self.extent(block)
            around = [
                v
                for v in others
                if v not in block
                and all(
                    stride(side, v) == stride(side, block[-1]) * size
                    for side in (self.product.left, self.product.right)
                )
            ]
            if not around:
                return block
            block.insert(0, around[0])

    def extent(self, block: Sequence[int]) -> Size:
        return math.prod([self.node.reduced[v - len(self.node.shape)] for v in block])

    def own_stride(self, axis: int) -> Size:
        step: Size = 1
        for size in self.node.shape[axis + 1 :]:
            step = step * size
        return step

    def at(self, read: ir.Read, names: dict[int, str]) -> str:
        """The address of the first element of a side."""
        kernel = self.kernel
        positions = []
        flat = names.get(0) == "" and self.depth > 0
        if flat:
            # rows of all parallel axes together: the last of them counts them
            offset: list[str] = []
            sizes = (*self.node.shape, *self.node.reduced)
            step = stride(read, self.product.rows)
            if step != 0 and names[self.product.rows] != "0":
                offset.append(f"{names[self.product.rows]} * {factor(kernel.size(step))}")
            constant: Size = 0
            for place, far in zip(read.places, strides(read.tensor.shape), strict=True):
                if isinstance(place, ir.Affine):
                    constant = constant + place.offset * far
                else:
                    assert isinstance(place, ir.At)
            for v in range(self.depth, len(sizes)):
                if v not in (self.product.rows, self.product.columns) and names[v] not in ("0", ""):
                    move = stride(read, v)
                    if move != 0:
                        offset.append(f"{names[v]} * {factor(kernel.size(move))}")
            steps = [
                f"({self.position(p)}) * {factor(kernel.size(far))}"
                for p, far in zip(read.places, strides(read.tensor.shape), strict=True)
                if isinstance(p, ir.At) and not kernel.entry.table_axes(read.tensor)
            ]
            if constant != 0:
                steps.append(kernel.size(constant))
            base = self.base(read)
            return " + ".join([base, *offset, *steps])
        formula = Formula(kernel, names, dict.fromkeys(names, 0), (*self.node.shape, *self.node.reduced), [[]])
        for place, size in zip(read.places, read.tensor.shape, strict=True):
            at, _ = formula.position(place, size, False)
            positions.append(without_zeros(at))
        text = kernel.element(read.tensor, read.places, positions)
        m = re.fullmatch(r"(\w+(?:->\w+)*)\[(.*)\]", text)
        assert m is not None, text
        return m[1] if m[2] == "0" else f"{m[1]} + {m[2]}"

    def position(self, place: ir.At) -> str:
        counter = self.kernel.counter(place.step)
        return counter if place.offset == 0 else f"{counter} + {self.kernel.size(place.offset)}"

    def base(self, read: ir.Read) -> str:
        kernel = self.kernel
        table = kernel.entry.table_axes(read.tensor)
        if table:
            row = kernel.offset(read.tensor.shape[:table], [self.position(p) for p in read.places[:table]])  # type: ignore[arg-type]
            return kernel.row(read.tensor, row, kernel.entry.table_address(read.tensor, kernel))
        return kernel.pointer(read.tensor)

    def result(self, names: dict[int, str]) -> str:
        kernel, node = self.kernel, self.node
        pointer = kernel.pointer(node)
        if names.get(0) == "" and self.depth:
            rows = f"{names[self.product.rows]} * {factor(kernel.size(self.own_stride(self.product.rows)))}"
            rest = [
                f"{names[k]} * {factor(kernel.size(self.own_stride(k)))}"
                for k in range(self.depth, len(node.shape))
                if k not in (self.product.rows, self.product.columns)
            ]
            return " + ".join([pointer, *([rows] if names[self.product.rows] != "0" else []), *rest])
        at = kernel.offset(node.shape, [names[k] for k in range(len(node.shape))])
        return pointer if at == "0" else f"{pointer} + {at}"
