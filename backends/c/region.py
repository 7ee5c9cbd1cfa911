"""Regions as C functions: loops over a piece of the parallel axes, with passes and matrix products inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.backends.c.blocks import has_blocks, pointer_lines
from dslc.backends.c.formula import Formula, vectorised
from dslc.backends.c.gathered import GatheredText
from dslc.backends.c.indices import LETTERS, index_names
from dslc.backends.c.kernel import WORD, Kernel
from dslc.backends.c.passes import PassText
from dslc.backends.c.products import TILE_ROWS, ProductText
from dslc.backends.c.reductions import combined, neutral
from dslc.backends.c.runtime import code_of
from dslc.backends.c.text import factor

from dslc.ir import nodes as ir
from dslc.schedule.form import Gathered, Item, Pass, Product, Region
from dslc.schedule.plan import Block, Row
from dslc.schedule.vanish import below_diagonal
from dslc.sizes import Size

#: rows that a matrix product takes at once
PRODUCT_ROWS = 128
#: about so many entries are worth waking a thread for
WORTH = 8192
#: columns that a thread sums up
COLUMNS = 64


def region_lines(kernel: Kernel, region: Region) -> None:
    """The body of the function of a region, for the piece of its flattened parallel axes from `begin` to `end`."""
    RegionText(kernel, region).write()


class RegionText:
    """The text of one region."""

    def __init__(self, kernel: Kernel, region: Region) -> None:
        self.kernel = kernel
        self.region = region
        self.depth = kernel.depth = region.depth
        homes = kernel.entry.plan.homes
        self.triangle = below_diagonal(
            region, {x for x in region.nodes if isinstance(homes.get(x, Row()), Row | Block)}
        )
        self.names = index_names(region.nodes, self.depth, kernel) if self.depth else {}
        self.row = self.names[0] if self.depth == 1 else kernel.names.fresh("row") if self.depth else ""

    def write(self) -> None:
        kernel, region = self.kernel, self.region
        groups = grouped(region.items)
        several = (len(groups) > 1 or has_blocks(kernel.entry, region)) and self.depth > 0
        self.first, self.end = "begin", "end"
        if several:
            self.first, self.end = kernel.names.fresh("first"), kernel.names.fresh("stop")
            rows = kernel.entry.rows(region)
            step, stop = (f"{self.first} += {rows}", f"{self.first} + {rows}") if rows > 1 else (f"{self.first}++", "")
            kernel.open(f"for (long {self.first} = begin; {self.first} < end; {step}) {{")
            kernel.line(f"const long {self.end} = {f'{stop} < end ? {stop} : end' if stop else f'{self.first} + 1'};")
        start = len(kernel.lines)
        for group in groups:
            if isinstance(group, Product):
                ProductText(self, group).write()
            elif isinstance(group, Gathered):
                GatheredText(self, group).write()
            elif len(group) == 1 and group[0].kind == "columns":
                self.columns(group[0])
            else:
                self.rows(group)
        if kernel.blocks:
            kernel.lines[start:start] = pointer_lines(kernel, region, self.first)
        if several:
            kernel.close()

    # ---- rows

    def rows(self, passes: list[Pass]) -> None:
        """A loop over rows with passes in it."""
        kernel = self.kernel
        registers: dict[ir.Node, tuple[str, int]] = {}
        flat = all(p.kind == "map" and not p.extra for p in passes)
        if self.depth:
            if flat and self.depth == 1 and self.simple(passes):
                kernel.line("#pragma omp simd")
            kernel.comment(passes[0].members[0].span)
            kernel.open(f"for (long {self.row} = {self.first}; {self.row} < {self.end}; {self.row}++) {{")
        start = len(kernel.lines)
        if self.depth > 1:
            kernel.rows = [self.names[k] for k in range(self.depth)], [*self.region.sizes], self.row
        for p in passes:
            PassText(self, p, registers).write()
        if self.depth:
            kernel.rows = None
            body = set(WORD.findall(code_of("\n".join(kernel.lines[start:]))))
            kernel.lines[start:start] = [f"{'    ' * kernel.indent}{x}" for name, x in self.indices() if name in body]
            kernel.close()

    def bound(self, k: int, size: Size, names: Mapping[int, str], p: Pass) -> str:
        """How far the loop along an axis of a pass goes: along a triangle to the end of the tile on the diagonal."""
        extent, triangle = self.kernel.size(size), self.triangle
        if triangle is None or k != triangle.column or not triangle.bounds(p):
            return extent
        return f"min_size({extent}, {names[triangle.row]} / {TILE_ROWS} * {TILE_ROWS} + {TILE_ROWS})"

    def simple(self, passes: list[Pass]) -> bool:
        return vectorised(m.body for p in passes for m in p.members)

    def indices(self) -> list[tuple[str, str]]:
        """The names of the indices of a row, and the lines that give them by its number."""
        kernel, sizes, found, rest = self.kernel, self.region.sizes, list[tuple[str, str]](), self.row
        for k in reversed(range(1, self.depth)):
            extent = factor(kernel.size(sizes[k]))
            found.append((self.names[k], f"const long {self.names[k]} = {rest} % {extent};"))
            rest = f"{rest} / {extent}"
        return [*found, (self.names[0], f"const long {self.names[0]} = {rest};")] if self.depth > 1 else []

    def columns(self, p: Pass) -> None:
        """Sums over all but the parallel axis, along which they run."""
        kernel = self.kernel
        (node,) = p.members
        names = {0: self.row} | {1 + k: kernel.names.fresh(x) for k, x in enumerate(LETTERS[: len(p.extra)])}
        target = kernel.pointer(node)
        kernel.comment(node.span)
        kernel.line("#pragma omp simd")
        kernel.line(f"for (long {self.row} = {self.first}; {self.row} < {self.end}; {self.row}++)")
        kernel.line(f"    {target}[{self.row}] = {neutral(node, kernel)};")
        lines: list[list[str]] = [[] for _ in range(len(p.extra) + 2)]
        levels = {1 + k: 1 + k for k in range(len(p.extra))} | {0: len(p.extra) + 1}
        formula = Formula(kernel, names, levels, (*node.shape, *node.reduced), lines)
        formula.add([node.body])
        text = formula.text(node.body)
        for line in lines[0]:
            kernel.line(line)
        for k, size in enumerate(p.extra):
            name = names[1 + k]
            kernel.open(f"for (long {name} = 0; {name} < {kernel.size(size)}; {name}++) {{")
            for line in lines[1 + k]:
                kernel.line(line)
        if self.simple([p]):
            kernel.line("#pragma omp simd")
        kernel.open(f"for (long {self.row} = {self.first}; {self.row} < {self.end}; {self.row}++) {{")
        for line in lines[-1]:
            kernel.line(line)
        kernel.line(combined(node, f"{target}[{self.row}]", text, kernel))
        kernel.close()
        for _ in p.extra:
            kernel.close()


def grouped(items: Sequence[Item]) -> list[Product | Gathered | list[Pass]]:
    """Passes that share a loop over rows, and products."""
    found: list[Product | Gathered | list[Pass]] = []
    for item in items:
        last = found[-1] if found else None
        if not isinstance(item, Pass):
            found.append(item)
        elif isinstance(last, list) and item.kind != "columns" and last[0].kind != "columns":
            last.append(item)
        else:
            found.append([item])
    return found
