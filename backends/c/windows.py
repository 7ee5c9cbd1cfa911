"""Rows of a product whose windows lie inside of an array: they are read in place, as in a direct convolution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dslc.backends.c.formula import Formula
from dslc.backends.c.indices import LETTERS
from dslc.backends.c.text import factor

from dslc.ir import nodes as ir
from dslc.polynomials import surely_nonnegative
from dslc.schedule.products import stride
from dslc.sizes import Size, floor_div

if TYPE_CHECKING:
    from dslc.backends.c.gathered import GatheredText

#: so many rows are worth a product of their own
RUN = 16


class Windows:
    """Runs of rows along the last of their axes. What leaves the array, at its edges, is gathered."""

    def __init__(self, text: GatheredText, left: ir.Read) -> None:
        self.text, self.kernel, self.product = text, text.kernel, text.product
        self.left, self.last = left, text.product.rows
        self.formula = Formula(self.kernel, {}, {}, text.sizes, [[]])
        #: the first window along the last axis that is inside, and where these end
        self.first: Size = 0
        self.ends: list[Size] = [text.sizes[self.last]]
        for place, size in self.guarded():
            step = dict(place.terms).get(self.last, 0)
            low, high = self.reach(place)
            below, above = self.formula.bounds(place, size)
            if step != 0 and not below:
                self.first = -floor_div(low, step)
            if step != 0 and not above:
                end = floor_div(size - high - 1 + step, step)
                self.ends = [x for x in self.ends if not _not_negative(x - end)] + [end]

    def guarded(self) -> list[tuple[ir.Affine, Size]]:
        """The places that may leave their axes."""
        if self.left.outside is None:
            return []
        found = zip(self.left.places, self.left.tensor.shape, strict=True)
        return [(place, size) for place, size in found if isinstance(place, ir.Affine)]

    def reach(self, place: ir.Affine) -> tuple[Size, Size]:
        """The lowest and the highest position of a window at row 0."""
        low = high = place.offset
        for n, c in place.terms:
            if n > self.last:
                far = c * (self.text.sizes[n] - 1)
                low, high = (low, high + far) if _not_negative(far) else (low + far, high)
        return low, high

    def possible(self) -> bool:
        """Can there be runs of rows, and is it known where they begin?"""
        first = self.first
        return isinstance(first, int) and all(not isinstance(x, int) or x - first >= RUN for x in self.ends)

    def write(self, at: str, rows: str, end: str, target: str, wide: str, fit: str) -> None:
        """In a loop over rows: go on behind a run of them, or let `rows` end where the next one begins."""
        kernel, last, sizes = self.kernel, self.last, self.text.sizes
        known = self.text.region.names
        names = {k: known[k] if k in known else kernel.names.fresh(*LETTERS) for k in range(last + 1)}
        rest = at
        for k in reversed(range(1, last + 1)):
            extent = factor(kernel.size(sizes[k]))
            kernel.line(f"const long {names[k]} = {rest} % {extent};")
            rest = f"{rest} / {extent}"
        kernel.line(f"const long {names[0]} = {rest};")
        self.formula.names = names
        here, inside, stop = names[last], kernel.names.fresh("inside"), kernel.size(self.ends[0])
        for x in self.ends[1:]:
            stop = f"smallest_i64({stop}, {kernel.size(x)})"
        tests = " && ".join(self.tests(names))
        kernel.line("// windows that lie inside are read in place")
        kernel.line(f"const long {inside} = {f'{tests} ? {stop} - {here} : 0' if tests else f'{stop} - {here}'};")
        kernel.line(f"{rows} = {inside} < {end} - {at} ? {inside} : {end} - {at};")
        kernel.open(f"if ({rows} >= {RUN}) {{")
        self.multiply(names, rows, target, wide)
        kernel.line("continue;")
        kernel.close()
        count, following = factor(kernel.size(sizes[last])), kernel.names.fresh("next")
        before = f"({here} < {self.first} ? {self.first} : {count} + {self.first})" if self.first != 0 else count
        kernel.line(f"const long {following} = {before} - {here};")
        kernel.line(fit)
        long = "" if all(isinstance(x, int) for x in self.ends) else f"{stop} >= {RUN + self.first} && "
        kernel.line(f"if ({long}{following} < {rows}) {rows} = {following};")

    def tests(self, names: dict[int, str]) -> list[str]:
        """What must hold at a row for its window to be inside, but for the end of the last axis."""
        found = [f"{names[self.last]} >= {self.first}"] if self.first != 0 else []
        for place, size in self.guarded():
            rows = tuple((n, c) for n, c in place.terms if n <= self.last)
            if not rows or rows[0][0] == self.last:
                continue
            low, high = self.reach(place)
            below, above = self.formula.bounds(place, size)
            found += [] if below else [f"{self.formula.affine(ir.affine(rows, low))} >= 0"]
            found += (
                [] if above else [f"{self.formula.affine(ir.affine(rows, high))} < {factor(self.kernel.size(size))}"]
            )
        return found

    def multiply(self, names: dict[int, str], rows: str, target: str, wide: str) -> None:
        """The product of a run: pieces of windows that lie in one are summed at once, and one axis around them."""
        kernel, product, sizes = self.kernel, self.product, self.text.sizes
        block = list(product.whole)
        around = [v for v in product.inner if v not in block]
        names = dict(names)
        for v in around[:-1]:
            names[v] = kernel.names.fresh(*LETTERS)
            kernel.open(f"for (long {names[v]} = 0; {names[v]} < {kernel.size(sizes[v])}; {names[v]}++) {{")
        self.formula.names = names
        positions = []
        for place, size in zip(self.left.places, self.left.tensor.shape, strict=True):
            if isinstance(place, ir.Affine):
                place = ir.affine(tuple((n, c) for n, c in place.terms if n in names), place.offset)
            positions.append(self.formula.position(place, size, False)[0])
        a = self.text.address(self.left, positions)
        b, bk = self.text.right(names, around[:-1], [*around[-1:], *block], "0")
        ai, suffix = kernel.size(stride(self.left, self.last)), kernel.types.suffix(self.text.node.dtype)
        length = kernel.size(math.prod([sizes[v] for v in block]))
        accumulate = " || ".join(f"{names[v]} > 0" for v in around[:-1]) or "0"
        if around:
            count, aq = kernel.size(sizes[around[-1]]), kernel.size(stride(self.left, around[-1]))
            bq = f"{factor(length)} * {factor(bk)}"
            bq = str(int(length) * int(bk)) if length.isdigit() and bk.isdigit() else bq
            kernel.line(
                f"gemm_q{suffix}({rows}, {wide}, {length}, {count}, {a}, {ai}, 1, {aq},"
                f" {b}, {bk}, {bq}, {target}, {wide}, {accumulate});"
            )
        else:
            kernel.line(f"gemm{suffix}({rows}, {wide}, {length}, {a}, {ai}, 1, {b}, {bk}, {target}, {wide}, 0);")
        for _ in around[:-1]:
            kernel.close()


def _not_negative(size: Size) -> bool:
    return size >= 0 if isinstance(size, int) else surely_nonnegative(size)
