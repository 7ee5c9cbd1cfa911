"""Sums of products: what does not depend on the summed variables leaves the sum, the rest is taken two by two.

    sum[r](a[i] * b[i, r] / c)              = a[i] / c * sum[r](b[i, r])
    sum[r, s](a[i, r] * b[r, s] * c[s, j])  = sum[s](sum[r](a[i, r] * b[r, s]) * c[s, j])

The order of the products is the cheapest one by the number of multiplications, sizes that are not known counting 64.
"""

from __future__ import annotations

from dataclasses import replace

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.algebra import is_zero
from dslc.ir.rewrite import Change, Form, keep
from dslc.passes.products import Product, join, select, split, times, variables
from dslc.passes.transform import Outputs, Transform
from dslc.sizes import Size, estimate

#: more factors than this are taken in the order in which they stand
MOST_FACTORS = 6


def order_sums(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Sums().outputs(outputs)


class Sums(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Comp) and node.op == "sum" and is_float(node.dtype):
            return self.sum(node)
        return node

    def sum(self, node: ir.Comp) -> ir.Tensor:
        kept = len(node.shape)
        chosen = self.choice(node)
        if chosen is not None:
            return chosen
        product = split(node.body)
        if len(product.above) + len(product.below) < 2 and not product.negative:
            return node
        summed = range(kept, kept + len(node.reduced))
        free = [not any(v in summed for v in variables(x)) for x in (*product.above, *product.below)]
        outside, inside = select(product, free)
        if not inside.above and not inside.below:
            return node
        alone = not outside.above and not outside.below and not outside.negative
        inner = self.ordered(node if alone else replace(node, name=""), inside)
        if alone:
            return inner
        whole = ir.read(inner, tuple(ir.plain(i) for i in range(kept)))
        above = (whole, *outside.above)
        body = join(Product(above, outside.below, outside.negative), node.dtype)
        return ir.comp(node.shape, body, name=node.name, span=node.span, dtype=node.dtype)

    def choice(self, node: ir.Comp) -> ir.Tensor | None:
        """A condition that does not depend on the summed variables leaves the sum."""
        kept = len(node.shape)
        body = node.body
        if not isinstance(body, ir.Op) or body.name != "select" or any(v >= kept for v in variables(body.args[0])):
            return None
        condition, a, b = body.args
        if not is_zero(a) and not is_zero(b):
            return None
        value = a if is_zero(b) else b
        inner = ir.comp(node.shape, value, "sum", node.reduced, "", node.span, node.dtype)
        if isinstance(inner, ir.Comp):
            inner = self.sum(inner)
        if isinstance(inner, ir.Comp) and inner.op is None:
            total = inner.body
        else:
            total = ir.read(inner, tuple(ir.plain(i) for i in range(kept)))
        nothing = ir.const(0.0, node.dtype)
        branches = (total, nothing) if is_zero(b) else (nothing, total)
        picked = ir.op("select", (condition, *branches), node.dtype)
        return ir.comp(node.shape, picked, name=node.name, span=node.span, dtype=node.dtype)

    def ordered(self, node: ir.Comp, product: Product) -> ir.Tensor:
        """The sum of a product, with sums of two factors first where that saves work."""
        kept = len(node.shape)
        sizes = (*node.shape, *node.reduced)
        factors = [*product.above, *(ir.op("/", (ir.const(1.0, x.dtype), x), x.dtype) for x in product.below)]
        if (len(product.above) >= 1 and len(factors) == 2) or len(factors) > MOST_FACTORS:
            body = join(product, node.dtype)
            return ir.comp(node.shape, body, "sum", node.reduced, node.name, node.span, node.dtype)
        while len(factors) > 2:
            found = self.pair(factors, sizes, kept)
            if found is None:
                break
            i, j, gone = found
            rest = [x for k, x in enumerate(factors) if k not in (i, j)]
            factors = [self.contracted(factors[i], factors[j], gone, sizes, node), *rest]
        summed = set(range(kept, len(sizes)))
        left = summed & {v for x in factors for v in variables(x)}
        unused = [n for n in sorted(summed - left) if any(n in variables(x) for x in (*product.above, *product.below))]
        product_left = times(factors, node.dtype)
        assert product_left is not None
        body = product_left
        if not unused:
            return ir.comp(node.shape, body, "sum", node.reduced, node.name, node.span, node.dtype)
        # variables that the pairs have summed already are no longer variables of this sum
        remaining = [n for n in range(kept, len(sizes)) if n not in unused]
        forms: dict[int, Form] = {n: keep(n) for n in range(kept)}
        forms.update({n: keep(kept + k) for k, n in enumerate(remaining)})
        body = Change(forms).scalar(body)
        reduced = tuple(sizes[n] for n in remaining)
        if reduced:
            return ir.comp(node.shape, body, "sum", reduced, node.name, node.span, node.dtype)
        return ir.comp(node.shape, body, name=node.name, span=node.span, dtype=node.dtype)

    def pair(self, factors: list[ir.Scalar], sizes: tuple[Size, ...], kept: int) -> tuple[int, int, list[int]] | None:
        """The two factors whose product is best summed first, and over which variables; None when none should be."""
        every = [variables(x) for x in factors]
        cost_of = [estimate(s) for s in sizes]

        def cost(numbers: frozenset[int]) -> float:
            total = 1.0
            for n in numbers:
                total *= cost_of[n]
            return total

        whole = cost(frozenset(v for x in every for v in x))
        best: tuple[float, int, int, list[int]] | None = None
        for i in range(len(factors)):
            for j in range(i + 1, len(factors)):
                others = frozenset(v for k, x in enumerate(every) if k not in (i, j) for v in x)
                both = every[i] | every[j]
                gone = sorted(v for v in both if v >= kept and v not in others)
                if not gone:
                    continue
                result = both - set(gone)
                total = cost(both) + cost(result | others)
                if total < whole and (best is None or total < best[0]):
                    best = (total, i, j, gone)
        return None if best is None else best[1:]

    def contracted(
        self, a: ir.Scalar, b: ir.Scalar, gone: list[int], sizes: tuple[Size, ...], node: ir.Comp
    ) -> ir.Scalar:
        """The sum of a * b over some variables, read back."""
        mine, theirs = variables(a), variables(b)
        common = [n for n in range(len(sizes)) if n in mine and n in theirs and n not in gone]
        rows = [n for n in range(len(sizes)) if n in mine and n not in theirs and n not in gone]
        columns = [n for n in range(len(sizes)) if n in theirs and n not in mine and n not in gone]
        order = [*common, *rows, *columns]
        forms = {n: keep(k) for k, n in enumerate([*order, *gone])}
        body = Change(forms).scalar(ir.op("*", (a, b), node.dtype))
        made = ir.comp(
            tuple(sizes[n] for n in order), body, "sum", tuple(sizes[n] for n in gone), "", node.span, node.dtype
        )
        made = self.sum(made) if isinstance(made, ir.Comp) and made.op == "sum" else made
        return ir.read(made, tuple(ir.plain(n) for n in order))
