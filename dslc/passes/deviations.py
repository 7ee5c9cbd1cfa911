"""The deviations from a mean add up to nothing.

    mu[i] = sum[k](x[i, k]) / K;   d[i] = sum[k](x[i, k] - mu[i])   gives   d[i] = 0

The gradient of a variance has such a sum: it is the path through the mean. Computed, it is noise of rounding that
costs a run over all data. In a loop back both are read from what the loop over layers has kept: there the mean is
that of the step which kept them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.passes.products import split
from dslc.passes.transform import Outputs, Transform, with_body
from dslc.sizes import Size, product, tidy


def drop_deviations(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Deviations().outputs(outputs)


class _Deviations(Transform):
    def __init__(self) -> None:
        super().__init__()
        self.zeros: set[ir.Node] = set()

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or not is_float(node.dtype):
            return node
        nothing = ir.const(0.0, node.dtype)
        if node.op == "sum" and is_deviation(node):
            zero = ir.comp(node.shape, nothing, name=node.name, span=node.span, dtype=node.dtype)
            self.zeros.add(zero)
            return zero
        body = self.without(node.body)
        if body is node.body:
            return node
        if body is None and node.op in (None, "sum"):
            zero = ir.comp(node.shape, nothing, name=node.name, span=node.span, dtype=node.dtype)
            self.zeros.add(zero)
            return zero
        return with_body(node, body or nothing)

    def without(self, root: ir.Scalar) -> ir.Scalar | None:
        """A formula without the terms that have such a sum as a factor; None when nothing is left."""
        if not any(isinstance(s, ir.Read) and s.tensor in self.zeros for s in ir.scalars(root)):
            return root
        done: dict[ir.Scalar, ir.Scalar | None] = {}
        for s in ir.scalars(root):
            done[s] = self.one(s, done)
        return done[root]

    def one(self, s: ir.Scalar, done: Mapping[ir.Scalar, ir.Scalar | None]) -> ir.Scalar | None:
        match s:
            case ir.Read() if s.tensor in self.zeros and s.outside is None:
                return None
            case ir.Op("*", (a, b)) if done[a] is None or done[b] is None:
                return None
            case ir.Op("/" | "neg", (a, *_)) if done[a] is None:
                return None
            case ir.Op("+", (a, b)) if done[a] is None or done[b] is None:
                return done[a] or done[b]
            case ir.Op("-", (a, b)) if done[b] is None:
                return done[a]
        return ir.rebuild(s, lambda x: done[x] or ir.const(0.0, x.dtype))


def is_deviation(node: ir.Comp) -> bool:
    """Is a sum that of the deviations of values from their own mean?"""
    body = in_its_loop(node.body)
    if not isinstance(body, ir.Op) or body.name != "-":
        return False
    value, mean = body.args
    if not isinstance(mean, ir.Read) or not isinstance(mean.tensor, ir.Comp) or mean.tensor.op is not None:
        return False
    whole = tuple(ir.plain(i) for i in range(len(node.shape)))
    if mean.tensor.shape != node.shape or mean.places != whole:
        return False
    product = split(mean.tensor.body, sink=False)
    sums = [x for x in product.above if isinstance(x, ir.Read)]
    if product.negative or len(sums) != 1 or sums[0].places != whole:
        return False
    total = sums[0].tensor
    if not isinstance(total, ir.Comp) or (total.op, total.body) != ("sum", value) or total.reduced != node.reduced:
        return False
    return _is_inverse([x for x in product.above if x is not sums[0]], list(product.below), node.reduced)


def in_its_loop(root: ir.Scalar) -> ir.Scalar:
    """A formula of what one step of a loop has left for the loop back, as that step would have it; else the formula."""
    reads = [s for s in ir.scalars(root) if isinstance(s, ir.Read)]
    kept = [s for s in reads if isinstance(s.tensor, ir.Part) and isinstance(s.tensor.of, ir.Scan) and s.places]
    steps = {s.places[0] for s in kept}
    scans = {s.tensor.of for s in kept if isinstance(s.tensor, ir.Part)}
    if len(kept) != len(reads) or len(steps) != 1 or len(scans) != 1:
        return root
    (step,), (scan,) = steps, scans
    if not isinstance(step, ir.At) or step.offset != 0 or not isinstance(scan, ir.Scan):
        return root
    if any(s.tensor.number >= len(scan.results) for s in kept if isinstance(s.tensor, ir.Part)):
        return root

    def inner(s: ir.Read) -> ir.Scalar:
        assert isinstance(s.tensor, ir.Part) and isinstance(scan, ir.Scan)
        return ir.read(scan.results[s.tensor.number], s.places[1:], s.outside)

    return ir.with_reads(root, inner)


def _is_inverse(above: list[ir.Scalar], below: list[ir.Scalar], sizes: tuple[Size, ...]) -> bool:
    """Is above / below = 1 / the product of the sizes?"""
    number = 1.0
    rest: Size = 1
    for x, under in (*((x, False) for x in above), *((x, True) for x in below)):
        match x:
            case ir.Const() if not isinstance(x.value, bool) and x.value and math.isfinite(x.value):
                number = number * x.value if under else number / x.value
            case ir.SizeOf() if under:
                rest = tidy(rest * x.size)
            case ir.Op("cast", (ir.SizeOf() as size,)) if under:
                rest = tidy(rest * size.size)
            case _:
                return False
    if not float(number).is_integer():
        return False
    return bool(tidy(rest * int(number)) == product(sizes))
