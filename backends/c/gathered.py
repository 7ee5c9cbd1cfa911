"""A matrix product with a formula as its left side as C text: pieces of that are written to a buffer in the cache."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslc.backends.c.formula import Formula, vectorised
from dslc.backends.c.indices import LETTERS, index_wishes
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.text import bare, factor, without_zeros
from dslc.backends.c.windows import Windows

from dslc.ir import nodes as ir
from dslc.schedule.form import Gathered, based
from dslc.schedule.products import is_strided, stride
from dslc.sizes import Size

if TYPE_CHECKING:
    from dslc.backends.c.region import RegionText

#: rows that a matrix product takes at once
ROWS = 64
#: so many products are summed up before the next piece of the left side is written
DEEP = 1024


class GatheredText:
    """A matrix product with a formula as its left side, for a piece of its rows."""

    def __init__(self, region: RegionText, product: Gathered) -> None:
        self.region = region
        self.kernel = region.kernel
        self.product = product
        self.node = product.node
        self.depth = region.depth
        self.sizes = (*self.node.shape, *self.node.reduced)
        #: the name of the right side, where it is written to memory
        self.written = ""

    def write(self) -> None:
        kernel, product, node, region = self.kernel, self.product, self.node, self.region
        kernel.comment(node.span)
        ctype, suffix = kernel.types.of(node.dtype), kernel.types.suffix(node.dtype)
        rows, rank = product.rows + 1, len(node.shape)
        wide = kernel.size(math.prod(node.shape[rows:]))
        block, loops = self.pieces()
        deep = self.extent(block)
        buffer = kernel.names.fresh("gathered")
        kernel.line(f"{ctype} {buffer}[{ROWS} * {deep}] __attribute__((aligned(64)));")
        rest = math.prod(node.shape[self.depth : rows])
        first, end = region.first, region.end
        if rest != 1:
            extent = factor(kernel.size(rest))
            first, end = f"{first} * {extent}" if first != "0" else "0", f"{end} * {extent}"
        if not self.depth:
            first, end = "0", kernel.size(rest)
        at, count = kernel.names.fresh("row"), kernel.names.fresh("rows")
        target = f"{kernel.pointer(node)} + {at} * {factor(wide)}"
        fit = f"{count} = {ROWS} < {end} - {at} ? {ROWS} : {end} - {at};"
        left = product.left
        windows = Windows(self, left) if product.whole and isinstance(left, ir.Read) and self.is_kept(left) else None
        if windows and windows.possible():
            kernel.open(f"for (long {at} = {first}, {count}; {at} < {end}; {at} += {count}) {{")
            windows.write(at, count, end, target, wide, fit)
        else:
            kernel.open(f"for (long {at} = {first}; {at} < {end}; {at} += {ROWS}) {{")
            kernel.line(f"const long {fit}")
        names = dict.fromkeys(range(rank), "")
        sums = []
        for k in loops:
            names[k] = kernel.names.fresh(*LETTERS)
            kernel.open(f"for (long {names[k]} = 0; {names[k]} < {kernel.size(self.sizes[k])}; {names[k]}++) {{")
            sums.append(names[k])
        cut = len(block) == 1 and not self.short(self.sizes[block[0]])
        start, length = "0", deep
        if cut:
            start, length = kernel.names.fresh("deep"), kernel.names.fresh("depth")
            whole = kernel.size(self.sizes[block[0]])
            kernel.open(f"for (long {start} = 0; {start} < {whole}; {start} += {deep}) {{")
            kernel.line(f"const long {length} = {deep} < {whole} - {start} ? {deep} : {whole} - {start};")
            sums.append(start)
        across = self.across()
        self.gather(buffer, names, block, at, count, start, length, across)
        right, bk = self.right(names, loops, block, start)
        ai, ak = ("1", str(ROWS)) if across else (length, "1")
        accumulate = " || ".join(f"{x} > 0" for x in sums) or "0"
        kernel.line(
            f"gemm{suffix}({count}, {wide}, {length}, {buffer}, {ai}, {ak},"
            f" {right}, {bk}, {target}, {wide}, {accumulate});"
        )
        for _ in range(1 + len(loops) + cut):
            kernel.close()

    def short(self, size: Size) -> bool:
        return isinstance(size, int) and size <= DEEP

    def pieces(self) -> tuple[list[int], list[int]]:
        """The last summed variables, which are written at once, and those before, which are loops."""
        block: list[int] = []
        total = 1
        for v in reversed(self.product.inner):
            size = self.sizes[v]
            if not isinstance(size, int) or total * size > DEEP:
                break
            total *= size
            block.insert(0, v)
        block = block or [self.product.inner[-1]]
        return block, [v for v in self.product.inner if v not in block]

    def extent(self, block: Sequence[int]) -> str:
        total = 1
        for v in block:
            size = self.sizes[v]
            total *= size if isinstance(size, int) and size <= DEEP else DEEP // 2
        return str(total)

    def across(self) -> bool:
        """Do rows lie side by side in memory, and not what is summed?"""
        last, inner = self.product.rows, self.product.inner[-1]
        reads = [s for s in ir.scalars(self.product.left) if isinstance(s, ir.Read) and s.places]
        return sum((stride(s, last) == 1) - (stride(s, inner) == 1) for s in reads) > 0

    def gather(
        self,
        buffer: str,
        names: dict[int, str],
        block: list[int],
        at: str,
        count: str,
        start: str,
        length: str,
        across: bool,
    ) -> None:
        """Write rows of the left side to the buffer."""
        kernel, node = self.kernel, self.node
        rows = self.product.rows
        names = dict(names)
        wishes = index_wishes([node])
        own = []
        for k in range(rows + 1):
            names[k] = kernel.names.fresh(*([wishes[k]] if k in wishes else []), *LETTERS)
            own.append(names[k])
        for k in block:
            names[k] = kernel.names.fresh(*LETTERS)
            own.append(names[k])
        i = kernel.names.fresh("line")
        own.append(i)
        levels = {k: 0 for k in names if k > rows and k not in block} | dict.fromkeys(range(rows + 1), 1)
        levels |= {v: 2 + k for k, v in enumerate(block)}
        if across:
            levels = {**levels, **{v: 2 + k for k, v in enumerate(block)}, rows: 2 + len(block)}
        lines: list[list[str]] = [[] for _ in range(2 + len(block) + across)]
        formula = Formula(kernel, names, levels, self.sizes, lines)
        formula.add([self.product.left])
        text, simd = formula.text(self.product.left), vectorised([self.product.left])
        if self.product.left.dtype != node.dtype and kernel.types.of(self.product.left.dtype) != kernel.types.of(
            node.dtype
        ):
            text = f"({kernel.types.of(node.dtype)}){factor(text)}"
        for line in lines[0]:
            kernel.line(line)
        run = ""
        if across:
            run = kernel.names.fresh("run")
            own.append(run)
            extent = factor(kernel.size(self.sizes[rows]))
            begin = kernel.names.fresh(names[rows] + "_first")
            own.append(begin)
            kernel.open(f"for (long {i} = 0, {run}; {i} < {count}; {i} += {run}) {{")
            kernel.line(f"const long {begin} = ({at} + {i}) % {extent};")
            kernel.line(f"{run} = {extent} - {begin} < {count} - {i} ? {extent} - {begin} : {count} - {i};")
        else:
            kernel.open(f"for (long {i} = 0; {i} < {count}; {i}++) {{")
        rest = f"({at} + {i})"
        for k in reversed(range(rows + 1)):
            extent = factor(kernel.size(self.sizes[k]))
            if k == 0:
                kernel.line(f"const long {names[k]} = {rest};")
            elif not (across and k == rows):
                kernel.line(f"const long {names[k]} = {rest} % {extent};")
            rest = f"{rest} / {extent}"
            if across and rows == 0:
                kernel.lines.pop()
        for line in lines[1]:
            kernel.line(line)
        place = kernel.offset([self.sizes[v] for v in block], [names[v] for v in block])
        for k, v in enumerate(block):
            low, high = "0", kernel.size(self.sizes[v])
            if start != "0":
                low, high, place = start, f"{start} + {length}", f"{names[v]} - {start}"
            if k == len(block) - 1 and not across and simd:
                kernel.line("#pragma omp simd")
            kernel.open(f"for (long {names[v]} = {low}; {names[v]} < {high}; {names[v]}++) {{")
            for line in lines[2 + k]:
                kernel.line(line)
        if across:
            c = names[rows]
            if simd:
                kernel.line("#pragma omp simd")
            kernel.open(f"for (long {c} = {begin}; {c} < {begin} + {run}; {c}++) {{")
            for line in lines[-1]:
                kernel.line(line)
            kernel.line(f"{buffer}[{factor(place)} * {ROWS} + {i} + {c} - {begin}] = {bare(text)};")
            kernel.close()
        else:
            kernel.line(f"{buffer}[{i} * {length} + {place}] = {bare(text)};")
        for _ in range(len(block) + 1):
            kernel.close()
        for name in own:
            kernel.names.taken.discard(name)

    def right(self, names: dict[int, str], loops: list[int], block: list[int], start: str) -> tuple[str, str]:
        """Where the rows of the right side begin, and how far they are apart."""
        kernel, product, node = self.kernel, self.product, self.node
        rank = len(node.shape)
        wide = math.prod(node.shape[product.rows + 1 :])
        right = product.right
        if isinstance(right, ir.Read) and is_strided(right) and self.is_kept(right) and self.lies(right, block):
            step = stride(right, block[-1])
            fixed = dict.fromkeys(range(rank + len(node.reduced)), "0")
            fixed |= {k: names[k] for k in loops}
            if start != "0":
                fixed[block[-1]] = start
            formula = Formula(kernel, fixed, dict.fromkeys(fixed, 0), self.sizes, [[]])
            positions = [
                without_zeros(formula.position(p, n, False)[0])
                for p, n in zip(right.places, right.tensor.shape, strict=True)
            ]
            return self.address(right, positions), kernel.size(step)
        written = self.written = self.written or kernel.entry.written_side(kernel, self)
        place = kernel.offset([self.sizes[v] for v in loops], [names[v] for v in loops]) if loops else "0"
        inner = math.prod([self.sizes[v] for v in block])
        text = without_zeros(" + ".join([f"{factor(place)} * {factor(kernel.size(inner))}", start]))
        text = "0" if place == "0" and start == "0" else start if place == "0" else text
        far = kernel.size(wide)
        return (written if text == "0" else f"{written} + {factor(text)} * {factor(far)}"), far

    def address(self, read: ir.Read, positions: Sequence[str]) -> str:
        """The address of an element."""
        text = self.kernel.element(read.tensor, read.places, positions)
        m = re.fullmatch(r"(\w+(?:->\w+)*)\[(.*)\]", text)
        assert m is not None, text
        return m[1] if m[2] == "0" else f"{m[1]} + {m[2]}"

    def is_kept(self, right: ir.Read) -> bool:
        """Does memory hold its numbers in the type that the product computes with?"""
        return self.kernel.entry.element_type(based(right.tensor)) == self.kernel.types.of(self.product.node.dtype)

    def lies(self, right: ir.Read, block: list[int]) -> bool:
        """Is the right side a matrix in memory, its rows equally far apart and its columns side by side?"""
        step: Size = stride(right, block[-1])
        for v in reversed(block):
            if stride(right, v) != step:
                return False
            step = step * self.sizes[v]
        step = 1
        for v in reversed(range(self.product.rows + 1, len(self.node.shape))):
            if stride(right, v) != step:
                return False
            step = step * self.sizes[v]
        return all(isinstance(x, ir.At | ir.Affine) for x in right.places)

    def right_lines(self, kernel: Kernel, target: str) -> None:
        """The loops that write the right side to memory, from row `begin` to row `end`."""
        product, node = self.product, self.node
        order = [*product.inner, *range(product.rows + 1, len(node.shape))]
        names = {v: kernel.names.fresh(*LETTERS) for v in order}
        first = order[0]
        lines: list[list[str]] = [[] for _ in range(len(order) + 1)]
        formula = Formula(kernel, names, {v: k + 1 for k, v in enumerate(order)}, self.sizes, lines)
        formula.add([product.right])
        text = formula.text(product.right)
        for line in lines[0]:
            kernel.line(line)
        for k, v in enumerate(order):
            low, high = ("begin", "end") if v == first else ("0", kernel.size(self.sizes[v]))
            if k == len(order) - 1 and vectorised([product.right]):
                kernel.line("#pragma omp simd")
            kernel.open(f"for (long {names[v]} = {low}; {names[v]} < {high}; {names[v]}++) {{")
            for line in lines[k + 1]:
                kernel.line(line)
        place = kernel.offset([self.sizes[v] for v in order], [names[v] for v in order])
        kernel.line(f"{target}[{place}] = {bare(text)};")
        for _ in order:
            kernel.close()
